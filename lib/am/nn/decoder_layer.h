// One decoder layer: attention, then feed-forward, each with a norm before it, after it, or both;
// or attention and feed-forward in parallel, after one shared norm or one norm each.
//
// Activation checkpointing is part of the forward pass: the layer is cut into parts, and a part
// whose tensors are not in the set to keep (layout/saved_activations.h) runs as a segment that is
// recomputed (checkpoint.h).
//
//   const auto kept = layout::kept_under(config::ActivationCheckpointing::kFull, layer.residual);
//   const at::Tensor y_BTD = layer(x_BTD, rotation, kept);
//
// Legend: B batch, T sequence, D hidden, H query heads, G key/value heads, K head_dim, F
// feed-forward, X a projection's width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "am/layout/saved_activations.h"
#include "am/nn/attention/attention.h"
#include "am/nn/attention/latent.h"
#include "am/nn/checkpoint.h"
#include "am/nn/experts/expert_feed_forward.h"
#include "am/nn/layers.h"
#include "am/nn/projections.h"
#include "am/nn/rope.h"

namespace am::nn {

struct Attention {
  // Projections to queries, keys and values; under latent attention, to the low-rank vectors and
  // the rotated key.
  Projections inputs;
  std::optional<LatentHeads> latent;
  Linear o_proj;
  Norm q_norm, k_norm;
  bool norms_span_heads = false;  // normalises all heads together, not each by itself
  // For a fused matrix whose rows are ordered by key head: number of query heads that precede each
  // key head and its values. 0: the rows are all queries, then all keys, then all values.
  int64_t by_key_head = 0;
  int64_t head_dim = 0;
  double scale = 1.0;                  // factor of the scores
  std::optional<double> softcap = {};  // c: scores become c * tanh(score / c)
  int64_t window = 0;                  // positions visible to a query, its own included; 0: all
  int rope = 0;                // index into model::DecoderSpec::ropes; -1: heads are not rotated
  ParameterPtr sinks = {};     // [H]; null: none (attention/block_kernel.h)
  AttentionCorePtr core = {};  // null: whole sequences are local

  // Output of inputs.products -> {q_BTX, k_BTX, v_BTX}, or the inputs of latent->make.
  Tensors finish(const Tensors& products) const;
  // Normalises (unless norm.weight is null) and rotates q_BTX or k_BTX -> BHTK. The head count
  // follows from X, so a tensor-parallel slice computes its own heads.
  at::Tensor norm_and_rope(const at::Tensor& x_BTX, const Norm& norm,
                           const Rotation& rotation) const;
  // Attention of rotated queries and keys, and v_BGTV -> BT(H*V), the input of o_proj.
  at::Tensor attend(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                    const Rotation& rotation) const;
};

struct FeedForward {
  Projections inputs;  // gate and up, or up alone
  Linear down_proj;
  bool gated = true;
  model::Activation activation = model::Activation::kSilu;

  // x_BTD -> BTD, the input of down_proj.finish. The activation function's output is recomputed in
  // backward, even outside a segment. `leaves`: the result is the recomputed segment's output.
  at::Tensor product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                     RecomputeTape& products) const;
};

struct DecoderLayer {
  // Norms that the family does not have (model::Residual) are the identity.
  Norm input_norm, post_attention_norm, pre_feed_forward_norm, post_feed_forward_norm;
  model::Residual residual = model::Residual::kPreNorm;
  Attention self_attn;
  FeedForward mlp;
  std::optional<ExpertFeedForward> experts = {};  // replaces mlp

  // x_BTD -> BTD. The layer must outlive backward.
  at::Tensor operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                        layout::SavedSet kept) const;

  // All linears and norms of the layer.
  std::vector<const Linear*> linears() const;
  std::vector<Linear*> linears();
  std::vector<const Norm*> norms() const;
};

// Returns y_BTD of the layer's equation, without activation checkpointing:
//
//   h = x + post_attention_norm(o_proj(attend(norm_and_rope(qkv(input_norm(x))))))
//   y = h + post_feed_forward_norm(feed_forward(pre_feed_forward_norm(h)))
//
// or, if attention and feed-forward are parallel (model::Residual), with x as the input of each.
// Tests compare DecoderLayer, which may recompute parts of the layer, with this function.
at::Tensor plain_layer(const DecoderLayer& layer, const at::Tensor& x_BTD,
                       const Rotation& rotation);

}  // namespace am::nn
