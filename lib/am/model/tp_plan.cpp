// The family's own plan, and what a plan means for a model's parameters.
#include "am/model/tp_plan.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/tp_check.h"

namespace am::model {
namespace {

using Components = std::vector<std::string>;

bool matches(const Components& pattern, const Components& module) {
  if (pattern.size() != module.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool same =
        is_glob(pattern[i]) ? glob_match(pattern[i], module[i]) : pattern[i] == module[i];
    if (!same) return false;
  }
  return true;
}

bool matches_any(std::string_view pattern, const std::vector<TpModule>& modules) {
  const Components components = split(pattern, '.');
  return std::any_of(modules.begin(), modules.end(), [&](const TpModule& module) {
    return matches(components, split(module.name, '.'));
  });
}

// Why a pattern may have matched nothing: a parameter instead of its module, or no "model." before
// it.
std::string pattern_help(std::string_view pattern, const std::vector<TpModule>& modules) {
  for (const std::string_view leaf : {".weight", ".bias"}) {
    if (!ends_with(pattern, leaf)) continue;
    const std::string module(pattern.substr(0, pattern.size() - leaf.size()));
    if (matches_any(module, modules)) {
      return cat("a pattern names modules, not parameters: \"", module, "\"");
    }
  }
  const std::string prefixed = cat("model.", pattern);
  if (matches_any(prefixed, modules)) return cat("did you mean \"", prefixed, "\"?");
  // Layers look alike, so one candidate stands for all of them.
  std::vector<std::string> candidates;
  for (const TpModule& module : modules) {
    if (module.layer <= 0) candidates.push_back(any_layer_name(module.name, module.layer));
  }
  const auto near = nearest(pattern, candidates);
  if (near.has_value()) return cat("did you mean \"", *near, "\"?");
  return "`*` stands for one component: \"model.layers.*.mlp.up_proj\"";
}

std::vector<TpModule> list_modules(const Inventory& inventory) {
  std::vector<TpModule> modules;
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    std::string name = parameter.module();
    if (modules.empty() || modules.back().name != name) {
      modules.push_back({.name = std::move(name),
                         .kind = parameter.module_kind,
                         .layer = parameter.layer,
                         .parameters = {},
                         .style = std::nullopt,
                         .rule = -1});
    }
    modules.back().parameters.push_back(static_cast<int>(i));
  }
  const bool listed = !modules.empty() && modules.back().name == inventory.names.head;
  if (inventory.tied_lm_head && !listed) {
    modules.push_back({.name = std::string(inventory.names.head),
                       .kind = ModuleKind::kLinear,
                       .layer = -1,
                       .parameters = {},
                       .style = std::nullopt,
                       .rule = -1});
  }
  return modules;
}

void match_rules(const TpPlan& plan, std::vector<TpModule>& modules, const Span& where,
                 ResolvedTpPlan& resolved, Diagnostics& found) {
  std::vector<Components> names;
  for (const TpModule& module : modules) names.push_back(split(module.name, '.'));
  for (size_t r = 0; r < plan.rules.size(); ++r) {
    const TpRule& rule = plan.rules[r];
    const Components pattern = split(rule.pattern, '.');
    std::vector<std::string>& matched = resolved.matches.emplace_back();
    for (size_t m = 0; m < modules.size(); ++m) {
      if (!matches(pattern, names[m])) continue;
      matched.push_back(modules[m].name);
      modules[m].style = rule.style;
      modules[m].rule = static_cast<int>(r);
    }
    if (matched.empty()) {
      found.error("tp.pattern", rule.where.file.empty() ? where : rule.where,
                  cat("no module matches \"", rule.pattern, "\""),
                  pattern_help(rule.pattern, modules));
    }
  }
}

std::optional<int> shard_dim(const TpModule& module, const ParameterSpec& parameter) {
  if (!module.style.has_value()) return std::nullopt;
  const bool weight = parameter.leaf() == "weight";
  switch (*module.style) {
    case TpStyle::kColwise:
    case TpStyle::kColwiseRep:
      return parameter.transposed ? 1 : 0;
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep:
      if (module.kind == ModuleKind::kEmbedding) return 0;
      // A row-wise bias is added once, after the sum over tp: every rank keeps all of it.
      if (!weight) return std::nullopt;
      return parameter.transposed ? 0 : 1;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      return std::nullopt;
  }
  return std::nullopt;
}

bool is_rowwise(const TpModule& module) {
  return module.style == TpStyle::kRowwise || module.style == TpStyle::kRowwiseRep;
}

// Each tp rank sees only a part of a replicated parameter's gradient when what it acts on is cut
// over tp: the sequence, or the heads.
bool needs_gradient_sum(const TpModule& module, const ParameterSpec& parameter,
                        bool sequence_parallel, bool heads_are_cut) {
  if (module.style == TpStyle::kSequenceParallel) return true;
  if (module.style == TpStyle::kReplicatedWithGradAllreduce) return true;
  if (is_head_norm(module)) return heads_are_cut;
  // Experts that are left whole see the tokens of their rank's sequence shard.
  if (sequence_parallel && !module.style.has_value() && in_expert_layer(module)) return true;
  return sequence_parallel && is_rowwise(module) && parameter.leaf() == "bias";
}

}  // namespace

TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel) {
  const Family& family = family_of(config);
  TpPlan plan;
  plan.source = cat("family ", family.model_type);
  plan.sequence_parallel = sequence_parallel && has_sequence_parallel(config);
  const std::vector<TpModule> modules = list_modules(build_inventory(config));
  for (const TpRow& row : family.tp_rows) {
    const auto style = plan.sequence_parallel ? row.sequence : row.plain;
    if (!style.has_value()) continue;
    // A tied head has no weight of its own: it is cut as the embedding is.
    const bool weightless = config.tie_word_embeddings && !config.head_bias;
    if (weightless && row.module == family.names.head) continue;
    if (!matches_any(row.module, modules)) continue;
    plan.rules.push_back({.pattern = std::string(row.module), .style = *style});
  }
  return plan;
}

bool has_sequence_parallel(const ModelConfig& config) {
  const auto rows = family_of(config).tp_rows;
  return std::any_of(rows.begin(), rows.end(),
                     [](const TpRow& row) { return row.sequence == TpStyle::kSequenceParallel; });
}

ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory,
                               const ModelConfig& config, const Span& where, Diagnostics& found) {
  ResolvedTpPlan resolved;
  resolved.parameters.resize(inventory.parameters.size());
  std::vector<TpModule> modules = list_modules(inventory);
  match_rules(plan, modules, where, resolved, found);
  check_tp_modules(plan, modules, config, where, found);
  for (size_t m = 0; m < modules.size(); ++m) {
    const TpModule& module = modules[m];
    const bool heads_are_cut = is_head_norm(module) && projection_is_cut(modules, m);
    for (const int index : module.parameters) {
      const ParameterSpec& parameter = inventory.parameters[static_cast<size_t>(index)];
      TpParameter& out = resolved.parameters[static_cast<size_t>(index)];
      out.style = module.style;
      out.shard_dim = shard_dim(module, parameter);
      if (module.kind == ModuleKind::kHeadVector && query_is_cut(modules, m)) out.shard_dim = 0;
      out.grad_sum_over_tp =
          needs_gradient_sum(module, parameter, plan.sequence_parallel, heads_are_cut);
    }
  }
  return resolved;
}

}  // namespace am::model
