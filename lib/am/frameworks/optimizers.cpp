#include "am/frameworks/optimizers.h"

#include "am/base/text.h"

namespace am::frameworks {

std::string torch_optimizer(const config::OptimizerSection& optimizer) {
  if (optimizer.name == "adam") return "Adam";
  return optimizer.name == "sgd" ? "SGD" : "AdamW";
}

void write_sgd(const config::OptimizerSection& optimizer, Json& to) {
  to.erase("betas");
  to.erase("eps");
  if (optimizer.momentum) to["momentum"] = *optimizer.momentum;
  if (optimizer.nesterov) to["nesterov"] = *optimizer.nesterov;
}

void read_torch_optimizer(PlanBuilder& builder, std::string_view path, std::string_view arguments) {
  const std::string name = builder.source().text(path).value_or("AdamW");
  set_torch_optimizer(builder, name, path, arguments);
}

void set_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view path,
                         std::string_view arguments) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const std::string mode = cat(arguments, "adam_w_mode");
  const bool decoupled = builder.source().boolean(mode).value_or(true);
  if (last == "FusedAdam" && !decoupled) return builder.set("optimizer.name", "adam", path);
  // A plan's default is AdamW, so the key need not be set. FusedAdam (of Apex and Transformer
  // Engine) also decouples the weight decay, as AdamW does, unless adam_w_mode is false.
  if (last == "AdamW" || last == "FusedAdam") return;
  if (last == "Adam") {
    builder.set("optimizer.name", "adam");
  } else if (last == "SGD") {
    builder.set("optimizer.name", "sgd");
    builder.copy(cat(arguments, "momentum"), "optimizer.momentum");
    builder.copy(cat(arguments, "nesterov"), "optimizer.nesterov");
  } else {
    builder.lose(path, "the optimizer: the plan trains with AdamW instead");
  }
}

}  // namespace am::frameworks
