// Tensor-parallel rows that several families share.
//
// They follow NeMo AutoModel's table: the embedding cut over the vocabulary, queries, keys, values,
// gate and up column-wise, what follows them row-wise, the head over the vocabulary with its output
// left cut. With sequence parallelism the norms work on sequence shards. What ours mends: norms
// over query and key heads are listed, so that their gradients are summed over tp.
#pragma once

#include <array>
#include <optional>

#include "am/model/family.h"

namespace am::model {

inline constexpr std::optional<TpStyle> kWhole = std::nullopt;

inline constexpr TpRow kEmbeddingRow = {"model.embed_tokens", TpStyle::kRowwiseRep,
                                        TpStyle::kRowwiseRep};
inline constexpr TpRow kHeadRow = {"lm_head", TpStyle::kColwise, TpStyle::kColwise};
inline constexpr TpRow kFinalNormRow = {"model.norm", kWhole, TpStyle::kSequenceParallel};

// The same style with and without sequence parallelism.
constexpr TpRow cut(std::string_view module, TpStyle style) { return {module, style, style}; }
constexpr TpRow sequence_norm(std::string_view module) {
  return {module, kWhole, TpStyle::kSequenceParallel};
}

// Llama's layers, and those of every family with the same names: its dense layers are cut, its
// experts are left whole (expert parallelism cuts them), and so are its routers.
inline constexpr std::array<TpRow, 16> kLlamaTpRows = {{
    kEmbeddingRow,
    cut("model.layers.*.self_attn.q_proj", TpStyle::kColwise),
    cut("model.layers.*.self_attn.k_proj", TpStyle::kColwise),
    cut("model.layers.*.self_attn.v_proj", TpStyle::kColwise),
    cut("model.layers.*.self_attn.o_proj", TpStyle::kRowwise),
    cut("model.layers.*.self_attn.q_norm", TpStyle::kReplicatedWithGradAllreduce),
    cut("model.layers.*.self_attn.k_norm", TpStyle::kReplicatedWithGradAllreduce),
    cut("model.layers.*.mlp.gate_proj", TpStyle::kColwise),
    cut("model.layers.*.mlp.up_proj", TpStyle::kColwise),
    cut("model.layers.*.mlp.down_proj", TpStyle::kRowwise),
    sequence_norm("model.layers.*.input_layernorm"),
    sequence_norm("model.layers.*.post_attention_layernorm"),
    sequence_norm("model.layers.*.pre_feedforward_layernorm"),
    sequence_norm("model.layers.*.post_feedforward_layernorm"),
    kFinalNormRow,
    kHeadRow,
}};

}  // namespace am::model
