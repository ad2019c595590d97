#include "am/exchange/optimizers.h"

#include "am/base/text.h"

namespace am::exchange {

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

void read_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view arguments) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (last == "AdamW") return;  // a plan's default
  if (last == "Adam") {
    builder.set("optimizer.name", "adam");
  } else if (last == "SGD") {
    builder.set("optimizer.name", "sgd");
    builder.copy(cat(arguments, "momentum"), "optimizer.momentum");
    builder.copy(cat(arguments, "nesterov"), "optimizer.nesterov");
  } else {
    builder.note(cat("the optimizer is ", name, "; the plan has AdamW"));
  }
}

}  // namespace am::exchange
