// Applies a tensor-parallel plan to the parameters of a model.
#include "am/model/tp_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "am/base/text.h"
#include "am/model/gradient_sum.h"
#include "am/model/tp_check.h"
#include "am/model/tp_pattern.h"

namespace am::model {

bool matches_module(std::string_view pattern, std::string_view module) {
  for (;;) {
    const size_t of_pattern = pattern.find('.');
    const size_t of_module = module.find('.');
    if (!glob_match(pattern.substr(0, of_pattern), module.substr(0, of_module))) return false;
    const bool last = of_pattern == std::string_view::npos;
    if (last || of_module == std::string_view::npos) return of_pattern == of_module;
    pattern.remove_prefix(of_pattern + 1);
    module.remove_prefix(of_module + 1);
  }
}

namespace {

bool matches_any(std::string_view pattern, const std::vector<TpModule>& modules) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const TpModule& module) { return matches_module(pattern, module.name); });
}

// Returns a hint for a pattern that matches no module: the module's name if the pattern names a
// parameter, the pattern with "model." prepended if that matches, the nearest module name, or
// otherwise an example of a pattern.
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
  std::set<std::string> names;  // layers of one kind have the same names
  for (const TpModule& module : modules) names.insert(any_layer_name(module.name, module.layer));
  const auto near = nearest(pattern, std::vector<std::string>(names.begin(), names.end()));
  if (near.has_value()) return cat("did you mean \"", *near, "\"?");
  return "`*` matches one component: \"model.layers.*.mlp.up_proj\"";
}

void match_rules(const TpPlan& plan, std::vector<TpModule>& modules, const Span& where,
                 ResolvedTpPlan& resolved, Diagnostics& found) {
  for (size_t r = 0; r < plan.rules.size(); ++r) {
    const TpRule& rule = plan.rules[r];
    std::vector<std::string>& matched = resolved.matches.emplace_back();
    for (size_t m = 0; m < modules.size(); ++m) {
      if (!matches_module(rule.pattern, modules[m].name)) continue;
      matched.push_back(modules[m].name);
      // OtherCut decides about modules of role kOther, even if a rule for projections matches their
      // names.
      if (modules[m].role() == Role::kOther) continue;
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

// Returns the dim along which tp shards `part` of an adapter (A, B or DoRA's magnitudes). Returns
// nothing if `part` is replicated. B and the magnitudes are sharded if the adapted matrix W is
// sharded by rows, and A if W is sharded by columns.
std::optional<int> adapter_shard_dim(const TpModule& module, AdapterPart part) {
  const TpStyle style = *module.style;
  const bool rows = style == TpStyle::kColwise || style == TpStyle::kPackedColwise ||
                    style == TpStyle::kColwiseRep;
  const bool columns = style == TpStyle::kRowwise || style == TpStyle::kRowwiseRep;
  if (part == AdapterPart::kA) return columns ? std::optional(1) : std::nullopt;
  return rows ? std::optional(0) : std::nullopt;
}

std::optional<int> shard_dim(const TpModule& module, const ParameterSpec& parameter) {
  if (!module.style.has_value()) return std::nullopt;
  if (parameter.adapter != AdapterPart::kNone) return adapter_shard_dim(module, parameter.adapter);
  switch (*module.style) {
    case TpStyle::kColwise:
    case TpStyle::kPackedColwise:
    case TpStyle::kColwiseRep:
      return parameter.transposed ? 1 : 0;
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep:
      if (module.kind() == ModuleKind::kEmbedding) return 0;
      // The bias of a row-wise module is replicated, because it is added once, after the sum over
      // tp.
      if (parameter.bias || parameter.shape.size() != 2) return std::nullopt;
      return parameter.transposed ? 0 : 1;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      return std::nullopt;
  }
  return std::nullopt;
}

// Returns the number of KV heads if a projection, slice or norm weight of this role belongs to KV
// heads, otherwise 0. A KV head is never cut, but several ranks may store copies of the head. A
// query head belongs to one rank.
int64_t shared_heads(Role role, const AttentionSpec& attention) {
  const bool of_keys = role == Role::kKey || role == Role::kValue || role == Role::kKeyNorm;
  return of_keys && !attention.latent ? attention.key_heads : 0;
}

std::vector<TpSlice> slices_of(const TpModule& module, const AttentionSpec& attention) {
  const ModuleSpec& spec = *module.spec;
  std::vector<TpSlice> slices;
  if (module.style == TpStyle::kPackedColwise) {
    int64_t offset = 0;
    for (const Slice& slice : spec.slices) {
      slices.push_back({offset, slice.length, shared_heads(slice.role, attention)});
      offset += slice.length;
    }
  } else if (const int64_t heads = shared_heads(spec.role, attention); heads > 0) {
    slices.push_back({0, spec.out, heads});
  }
  return slices;
}

// Returns how tp shards one parameter of a module with OtherCut::kRows or kColumns.
TpParameter cut_of_other(const ModuleSpec& module) {
  TpParameter out;
  if (module.other_cut == OtherCut::kColumns) out.shard_dim = 1;
  if (module.other_cut != OtherCut::kRows) return out;
  out.shard_dim = 0;
  int64_t offset = 0;
  for (const Slice& slice : module.slices) {
    out.slices.push_back({offset, slice.length, /*heads=*/0});
    offset += slice.length;
  }
  return out;
}

// Returns how the plan shards one parameter of a module.
TpParameter cut_of(const TpModule& module, const TpModules& modules, const TpUse& use,
                   const ParameterSpec& parameter) {
  const OtherCut other = module.spec->other_cut;
  if (other == OtherCut::kRows || (other == OtherCut::kColumns && !parameter.bias)) {
    return cut_of_other(*module.spec);
  }
  TpParameter out;
  out.style = module.style;
  out.shard_dim = shard_dim(module, parameter);
  // Attention sinks and the weights of norms over all heads together are sharded like the heads.
  const bool of_heads = module.kind() == ModuleKind::kHeadVector || use.spans_heads;
  if (of_heads && use.heads_are_cut) out.shard_dim = 0;
  out.grad_sum_over_tp = parameter.adapter == AdapterPart::kNone
                             ? gradient_sum(*module.spec, parameter.bias, use)
                             : gradient_sum(parameter.adapter, use);
  const bool gives_heads = module.has_cut_output() && parameter.adapter != AdapterPart::kA;
  const bool cuts_heads = gives_heads || (of_heads && use.heads_are_cut);
  if (cuts_heads && module.layer >= 0) out.slices = slices_of(module, modules.attention_of(module));
  return out;
}

}  // namespace

ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory, const Span& where,
                               Diagnostics& found) {
  ResolvedTpPlan resolved;
  resolved.parameters.resize(inventory.parameters.size());
  TpModules modules(inventory);
  match_rules(plan, modules.all(), where, resolved, found);
  check_tp_modules(plan, modules, where, found);
  for (const TpModule& module : modules.all()) {
    const TpUse use{
        .style = module.style,
        .sequence_parallel = plan.sequence_parallel,
        .deals_tokens = !plan.rules.empty(),
        .heads_are_cut = modules.heads_are_cut(module),
        .spans_heads = module.is_head_norm() && modules.attention_of(module).norms_span_heads};
    for (const int index : module.parameters) {
      const auto at = static_cast<size_t>(index);
      resolved.parameters[at] = cut_of(module, modules, use, inventory.parameters[at]);
    }
  }
  return resolved;
}

}  // namespace am::model
