// The tensor-parallel plan that follows from a description: a style for each role.
//
// The rules follow NeMo AutoModel's tables: the embedding cut over the vocabulary, queries, keys,
// values, gate and up column-wise, what follows them row-wise, the head over the vocabulary with
// its output left cut. With sequence parallelism the norms work on sequence shards. What ours
// mends: the gradients of norms over query and key heads are summed over tp. Experts and routers
// stay whole: expert parallelism cuts them.
#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/tp_plan.h"

namespace am::model {
namespace {

using Style = std::optional<TpStyle>;

// Plans are written in this order.
constexpr std::array<Role, 18> kOrder = {Role::kEmbedding,
                                         Role::kQuery,
                                         Role::kKey,
                                         Role::kValue,
                                         Role::kQkv,
                                         Role::kAttentionOut,
                                         Role::kQueryNorm,
                                         Role::kKeyNorm,
                                         Role::kGate,
                                         Role::kUp,
                                         Role::kGateUp,
                                         Role::kDown,
                                         Role::kInputNorm,
                                         Role::kPostAttentionNorm,
                                         Role::kPreFeedForwardNorm,
                                         Role::kPostFeedForwardNorm,
                                         Role::kFinalNorm,
                                         Role::kHead};

// A slice of a fused matrix would not be heads, and the rotated part of latent attention's keys is
// one for all heads: a rank with some of the heads would have a part of its gradient only. Both
// stay whole, and need the whole sequence.
bool attends_whole(const LayerSpec& layer) {
  return layer.attention.latent || layer.attention.fused != AttentionSpec::Fused::kNo;
}

Style attention_style(const LayerSpec& layer, Role role) {
  if (attends_whole(layer)) return std::nullopt;
  // Norms over all heads together need all of a token's at once: queries, keys and values are
  // gathered before attention. (A plan that hands out heads would normalise each rank's part.)
  const bool gathers = layer.attention.norms_span_heads;
  switch (role) {
    case Role::kAttentionOut:
      return gathers ? TpStyle::kRowwiseRep : TpStyle::kRowwise;
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return gathers ? Style() : TpStyle::kReplicatedWithGradAllreduce;
    default:
      return gathers ? TpStyle::kColwiseRep : TpStyle::kColwise;
  }
}

Style layer_style(const LayerSpec& layer, Role role, bool sequence_parallel) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionOut:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return attention_style(layer, role);
    case Role::kGate:
    case Role::kUp:
    case Role::kGateUp:
      return TpStyle::kColwise;
    case Role::kDown:
      return TpStyle::kRowwise;
    case Role::kInputNorm:
    case Role::kPostAttentionNorm:
    case Role::kPreFeedForwardNorm:
    case Role::kPostFeedForwardNorm:
      return sequence_parallel ? Style(TpStyle::kSequenceParallel) : std::nullopt;
    default:
      return std::nullopt;
  }
}

Style outer_style(const ModuleSpec& module, bool sequence_parallel) {
  switch (module.role) {
    case Role::kEmbedding:
      return TpStyle::kRowwiseRep;
    case Role::kFinalNorm:
      return sequence_parallel ? Style(TpStyle::kSequenceParallel) : std::nullopt;
    case Role::kHead:
      // A tied head has no weight of its own: it is cut as the embedding is.
      return module.tensors() > 0 ? Style(TpStyle::kColwise) : std::nullopt;
    default:
      return std::nullopt;
  }
}

class Writer {
 public:
  Writer(const Family& family, TpPlan& plan) : family_(family), plan_(plan) {}

  void add(std::string pattern, Role role, Style style) {
    for (const TpException& own : family_.tp_exceptions) {
      if (own.role == role) style = own.style;
    }
    const bool known = std::any_of(plan_.rules.begin(), plan_.rules.end(),
                                   [&](const TpRule& rule) { return rule.pattern == pattern; });
    if (style.has_value() && !known) {
      plan_.rules.push_back({.pattern = std::move(pattern), .style = *style});
    }
  }

 private:
  const Family& family_;
  TpPlan& plan_;
};

bool can_cut_sequences(const DecoderSpec& spec) {
  return std::none_of(spec.kinds.begin(), spec.kinds.end(), attends_whole);
}

}  // namespace

TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel) {
  const Family& family = family_of(config);
  const DecoderSpec spec = describe(config);
  TpPlan plan;
  plan.source = cat("family ", family.model_type);
  plan.sequence_parallel = sequence_parallel && can_cut_sequences(spec);
  Writer writer(family, plan);
  for (const Role role : kOrder) {
    if (const ModuleSpec* module = spec.find(role)) {
      writer.add(module->name, role, outer_style(*module, plan.sequence_parallel));
    }
    for (const LayerSpec& layer : spec.kinds) {
      const ModuleSpec* module = layer.find(role);
      if (module == nullptr) continue;
      writer.add(cat(spec.names.layers, ".*.", module->name), role,
                 layer_style(layer, role, plan.sequence_parallel));
    }
  }
  return plan;
}

bool has_sequence_parallel(const ModelConfig& config) {
  return can_cut_sequences(describe(config));
}

}  // namespace am::model
