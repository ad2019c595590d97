// Rules on load balancing of experts.
#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/model/spec.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

bool has_correction_bias(const model::ModelConfig& config) {
  const model::DecoderSpec spec = model::describe(config);
  return std::any_of(spec.kinds.begin(), spec.kinds.end(), [](const model::LayerSpec& layer) {
    return layer.has(model::Role::kRouterCorrection);
  });
}

void check_balancing(const RuleContext& context, Diagnostics& found) {
  const std::string& balancing = context.plan.experts.balancing;
  if (context.model == nullptr || balancing == "none") return;
  const Span where = context.plan.span("experts.balancing");
  if (!context.model->moe) {
    found.error("experts.balancing", where,
                cat("balancing = \"", balancing, "\", but a ", context.model->model_type,
                    " model has no experts"),
                "balancing = \"none\"");
  } else if (balancing == "bias" && !has_correction_bias(*context.model)) {
    found.error("experts.balancing", where,
                cat("balancing = \"bias\" moves the router's correction bias, but a ",
                    context.model->model_type, " model has none"),
                "balancing = \"sequence\" or \"none\"");
  }
}

void check_keys(const RuleContext& context, Diagnostics& found) {
  const config::ExpertsSection &experts = context.plan.experts, defaults;
  const auto warn = [&](const char* key, const char* reader, bool changed) {
    if (!changed || experts.balancing == reader) return;
    found.warning("experts.keys", context.plan.span(cat("experts.", key)),
                  cat(key, " has no effect with balancing = \"", experts.balancing, "\""),
                  cat("set balancing = \"", reader, "\", or remove the key"));
  };
  warn("rate", "bias", experts.rate != defaults.rate);
  warn("coefficient", "sequence", experts.coefficient != defaults.coefficient);
}

constexpr std::array<Rule, 2> kRules = {{
    {.id = "experts.balancing",
     .summary = "balancing needs experts, and \"bias\" a router with a correction bias",
     .explain = "bias: after each step the correction bias of a router (e_score_correction_bias of "
                "DeepSeek-V3) falls by experts.rate for experts with more tokens of the global "
                "batch than the mean, and rises for the others. Only families with such a bias "
                "support it.\n\n"
                "sequence: DeepSeek-V3's balance loss of each sequence. The balance loss of a step "
                "is coefficient / (sequences of the global batch) * the sum of f_i P_i over "
                "layers, sequences and experts. Its gradient is added at the router's scores; the "
                "reported loss stays the cross-entropy, and aux_loss is a metric.\n\n"
                "Both have the same result under every layout. Losses over the tokens of a whole "
                "micro-batch (router_aux_loss_coef) do not: two micro-batches of one sequence each "
                "would train differently from one micro-batch of two sequences. Such losses are "
                "not supported, and their keys in a config.json are ignored.",
     .check = check_balancing},
    {.id = "experts.keys",
     .summary = "keys of [experts] that are given apply to the chosen balancing (a warning)",
     .explain = "rate is the step by which balancing = \"bias\" changes a bias; coefficient is the "
                "factor of balancing = \"sequence\".",
     .check = check_keys},
}};

}  // namespace

std::span<const Rule> expert_rules() { return kRules; }

}  // namespace am::rules
