// Rules on the optimizer and its groups of parameters.
#include "am/config/optimizer.h"

#include <array>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

bool has_moments(std::string_view name) { return name != "sgd"; }
bool has_momentum(std::string_view name) { return name == "sgd" || name == "muon"; }

// A key of [optimizer] and the optimizers that read it.
struct KeyOf {
  const char* key;
  bool (*reads)(std::string_view name);
  const char* who;
};

constexpr std::array<KeyOf, 5> kKeys = {{
    {"betas", has_moments, "adamw, adam and muon"},
    {"eps", has_moments, "adamw, adam and muon"},
    {"momentum", has_momentum, "sgd and muon"},
    {"nesterov", has_momentum, "sgd and muon"},
    {"adjust_lr", [](std::string_view name) { return name == "muon"; }, "muon"},
}};

// Whether the key has its default value. A key with its default value is not reported, because the
// plan.toml of a run folder contains all keys.
bool is_default(const config::Plan& plan, std::string_view key) {
  const config::FieldSpec* field = config::find_field("optimizer", key, {});
  return field == nullptr || field->get(plan) == field->get(config::Plan());
}

void check_keys(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  for (const KeyOf& each : kKeys) {
    if (each.reads(plan.optimizer.name) || is_default(plan, each.key)) continue;
    found.warning("optimizer.keys", plan.span(cat("optimizer.", each.key)),
                  cat(each.key, " has no effect with name = \"", plan.optimizer.name, "\""),
                  cat("this key is only for ", each.who, ": remove it, or name another optimizer"));
  }
}

void check_nesterov(const RuleContext& context, Diagnostics& found) {
  const config::OptimizerSection& optimizer = context.plan.optimizer;
  if (!has_momentum(optimizer.name) || !config::nesterov_of(optimizer)) return;
  if (optimizer.name == "muon" || config::momentum_of(optimizer) > 0.0) return;
  found.error("optimizer.nesterov", context.plan.span("optimizer.nesterov"),
              "nesterov = true needs a momentum", "momentum = 0.9, or nesterov = false");
}

void check_groups(const RuleContext& context, Diagnostics& found) {
  const config::OptimizerSection& optimizer = context.plan.optimizer;
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    const config::OptimizerGroup& group = optimizer.groups[i];
    const Span where = context.plan.span(cat("optimizer.group.", i));
    if (group.lr && optimizer.lr == 0.0) {
      found.error("optimizer.group", where,
                  "the lr of a group is relative to optimizer.lr, which is 0",
                  "lr = 1e-4 in [optimizer]");
    }
    if (group.name && optimizer.name != "muon") {
      found.warning(
          "optimizer.group", where,
          cat("name = \"", *group.name, "\" in a group has no effect with optimizer.name = \"",
              optimizer.name, "\""),
          "remove name from the group: it only excludes parameters from muon");
    }
  }
}

constexpr std::array<Rule, 4> kRules = {{
    {.id = "optimizer.keys",
     .summary = "keys of [optimizer] that are given apply to the chosen optimizer (a warning)",
     .explain =
         "betas and eps apply to AdamW and Adam, and to Muon, which updates all parameters except "
         "the layers' matrices with AdamW. momentum and nesterov apply to SGD and Muon, adjust_lr "
         "to Muon. All optimizers read lr, weight_decay, no_decay and group.",
     .check = check_keys},
    {.id = "optimizer.nesterov",
     .summary = "nesterov needs a momentum",
     .explain = "Nesterov's step looks ahead along the momentum. Without momentum it is not "
                "defined: torch.optim.SGD refuses it too.",
     .check = check_nesterov},
    {.id = "optimizer.group",
     .summary = "every glob of [[optimizer.group]] matches a parameter, and its keys apply",
     .explain =
         "[[optimizer.group]] gives the parameters that match its globs a peak learning rate and a "
         "weight decay of their own; with name = \"adamw\" they are not updated by muon. The first "
         "group that matches a parameter applies, and no_decay does not apply to it. The learning "
         "rate of a group follows the schedule of [scheduler] in proportion to optimizer.lr.",
     .check = check_groups},
    {.id = "optimizer.no_decay",
     .summary = "every glob of no_decay matches a parameter",
     .explain =
         "optimizer.no_decay lists globs over parameters' names, in which `*` also matches dots: "
         "[\"*.bias\", \"*norm*\"]. Parameters that match have a weight_decay of 0; all others "
         "have the optimizer's. An [[optimizer.group]] that matches a parameter overrides both.\n\n"
         "With a glob that matches nothing, parameters that should not decay would decay.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> optimizer_rules() { return kRules; }

}  // namespace am::rules
