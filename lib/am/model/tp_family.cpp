// Derives a tensor-parallel plan from the description of a model. The role of a module determines
// the module's style.
//
// The styles follow NeMo AutoModel's TP plans: the embedding is cut over the vocabulary; queries,
// keys, values, gate and up are column-wise, and the modules after them are row-wise; the head is
// cut over the vocabulary and its output stays sharded. With sequence parallelism the norms run on
// sequence shards.
//
// The plans differ from AutoModel's in three points. Gradients of norms over query and key heads
// are summed over tp. Fused matrices are cut slice by slice. The projections from the low-rank
// vectors of latent attention are cut, whereas AutoModel replicates latent attention.
//
// Experts and routers are replicated over tp, and each rank applies them to its part of the tokens.
// Only expert parallelism shards the experts.
#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/tp_plan.h"

namespace am::model {
namespace {

using Style = std::optional<TpStyle>;

// Order of the rules in the plan that family_tp_plan() returns, by the roles of their modules.
constexpr std::array<Role, 26> kOrder = {Role::kEmbedding,
                                         Role::kEmbeddingNorm,
                                         Role::kQuery,
                                         Role::kKey,
                                         Role::kValue,
                                         Role::kQkv,
                                         Role::kQueryUp,
                                         Role::kKeyValueUp,
                                         Role::kAttentionOut,
                                         Role::kQueryNorm,
                                         Role::kKeyNorm,
                                         Role::kGate,
                                         Role::kUp,
                                         Role::kGateUp,
                                         Role::kDown,
                                         Role::kSharedGate,
                                         Role::kSharedUp,
                                         Role::kSharedDown,
                                         Role::kInputNorm,
                                         Role::kPostAttentionNorm,
                                         Role::kPreFeedForwardNorm,
                                         Role::kPostFeedForwardNorm,
                                         Role::kQueryDownNorm,
                                         Role::kKeyValueDownNorm,
                                         Role::kFinalNorm,
                                         Role::kHead};

Style attention_style(const LayerSpec& layer, Role role) {
  switch (role) {
    case Role::kAttentionOut:
      return TpStyle::kRowwise;
    case Role::kQkv:
      // With kByKeyHead, the rows of each key head are adjacent to those of its query heads. One
      // cut of the matrix therefore shards queries, keys and values. With kConcatenated, the three
      // slices are cut separately.
      return layer.attention.fused == AttentionSpec::Fused::kByKeyHead ? TpStyle::kColwise
                                                                       : TpStyle::kPackedColwise;
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      // A norm over all heads together needs no rule, because its weight is sharded like the heads.
      return layer.attention.norms_span_heads ? Style() : TpStyle::kReplicatedWithGradAllreduce;
    default:
      return TpStyle::kColwise;
  }
}

Style layer_style(const LayerSpec& layer, Role role, bool sequence_parallel) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kQkv:
    case Role::kQueryUp:
    case Role::kKeyValueUp:
    case Role::kAttentionOut:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return attention_style(layer, role);
    case Role::kGateUp:
      return TpStyle::kPackedColwise;
    case Role::kGate:
    case Role::kUp:
    case Role::kSharedGate:
      return TpStyle::kColwise;
    case Role::kSharedUp:
      return layer.find(role)->slices.empty() ? TpStyle::kColwise : TpStyle::kPackedColwise;
    case Role::kDown:
    case Role::kSharedDown:
      return TpStyle::kRowwise;
    case Role::kInputNorm:
    case Role::kPostAttentionNorm:
    case Role::kPreFeedForwardNorm:
    case Role::kPostFeedForwardNorm:
    case Role::kQueryDownNorm:
    case Role::kKeyValueDownNorm:
      return sequence_parallel ? Style(TpStyle::kSequenceParallel) : std::nullopt;
    default:
      return std::nullopt;
  }
}

Style outer_style(const ModuleSpec& module, bool sequence_parallel) {
  switch (module.role) {
    case Role::kEmbedding:
      return TpStyle::kRowwiseRep;
    case Role::kEmbeddingNorm:
    case Role::kFinalNorm:
      return sequence_parallel && module.tensors() > 0 ? Style(TpStyle::kSequenceParallel)
                                                       : std::nullopt;
    case Role::kHead:
      // A tied head without a bias needs no rule: it uses the embedding's weight, which is cut over
      // the vocabulary.
      return module.tensors() > 0 ? Style(TpStyle::kColwise) : std::nullopt;
    default:
      return std::nullopt;
  }
}

void add_rule(std::string pattern, Style style, TpPlan& plan) {
  const bool known = std::any_of(plan.rules.begin(), plan.rules.end(),
                                 [&](const TpRule& rule) { return rule.pattern == pattern; });
  if (style.has_value() && !known) plan.rules.push_back({std::move(pattern), *style});
}

}  // namespace

TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel) {
  const DecoderSpec spec = describe(config);
  TpPlan plan;
  plan.source = cat("family ", family_of(config).model_type);
  plan.sequence_parallel = sequence_parallel;
  for (const Role role : kOrder) {
    if (const ModuleSpec* module = spec.find(role)) {
      add_rule(module->name, outer_style(*module, sequence_parallel), plan);
    }
    for (const LayerSpec& layer : spec.kinds) {
      const ModuleSpec* module = layer.find(role);
      if (module == nullptr || module->tensors() == 0) continue;
      add_rule(cat(spec.names.layers, ".*.", module->name),
               layer_style(layer, role, sequence_parallel), plan);
    }
  }
  return plan;
}

}  // namespace am::model
