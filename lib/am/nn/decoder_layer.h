// One decoder layer: attention, then feed-forward, each with a norm before it, after it, or both.
// In parallel layers, attention and feed-forward read the same input, after one shared norm or
// after one norm each.
//
// Activation checkpointing is part of the forward pass: the layer is cut into parts. A part whose
// tensors are not in the set to keep (layout/saved_activations.h) runs as a segment that backward
// recomputes (checkpoint.h).
//
//   const auto kept = layout::kept_under(config::ActivationCheckpointing::kFull, layer.residual);
//   const at::Tensor y_BTD = layer(x_BTD, rotation, kept);
//
// Legend: B batch, T sequence, D hidden, H query heads, G key/value heads, K head_dim, V width of a
// head's values, X a projection's width.
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
  // Whether q_norm and k_norm normalise all heads together instead of each head by itself.
  bool norms_span_heads = false;
  bool norms_follow_rope = false;  // q_norm and k_norm are applied after the rotation
  // For a fused matrix whose rows are ordered by key head: number of query heads that precede each
  // key head and its values. 0 if the rows are first all queries, then all keys, then all values.
  int64_t by_key_head = 0;
  int64_t head_dim = 0;
  double scale = 1.0;                  // factor of the scores
  std::optional<double> softcap = {};  // cap c: scores become c * tanh(score / c)
  int64_t window = 0;        // number of positions that a query sees, its own included; 0: all
  int rope = 0;              // index into model::DecoderSpec::ropes; -1: heads are not rotated
  bool interleaved = false;  // RoPE pairs adjacent elements of a head
  std::vector<double> slopes = {};  // slopes of ALiBi for the heads of this rank; empty: no ALiBi
  // Score of each head's attention sink [H]; null: no sinks (attention/block_kernel.h).
  ParameterPtr sinks = {};
  // Computes attention if this rank computes only a part of each sequence; null otherwise.
  AttentionCorePtr core = {};

  // Converts the result of inputs.products to {q_BTX, k_BTX, v_BTX} or, under latent attention, to
  // the inputs of latent->make.
  Tensors finish(const Tensors& products) const;
  // Normalises q_BTX or k_BTX (unless norm.weight is null), rotates it and returns it as [B, H, T,
  // K]. The rotation comes first if norms_follow_rope. The head count follows from X, so that a
  // tensor-parallel slice computes its own heads.
  at::Tensor norm_and_rope(const at::Tensor& x_BTX, const Norm& norm,
                           const Rotation& rotation) const;
  // Returns the attention output of the rotated queries and keys and of v_BGTV: the input of
  // o_proj, [B, T, H * V].
  at::Tensor attend(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                    const Rotation& rotation) const;
};

struct FeedForward {
  Projections inputs;  // layers for gate and up, or for up alone
  Linear down_proj;
  bool gated = true;
  model::Activation activation = model::Activation::kSilu;

  // Returns the input of down_proj.finish [B, T, D] for x_BTD. Backward recomputes the output of
  // the activation function. Exception: outside a segment, autograd keeps that output if down_proj
  // has an input transform and no adapter. `keeps_gate`: whether an enclosing segment keeps the
  // gate's output instead of recomputing it. `leaves`: whether the enclosing segment returns the
  // result without reading it.
  at::Tensor product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                     RecomputeTape& products) const;
};

struct DecoderLayer {
  // Norms that the family does not have (model::Residual) are the identity.
  Norm input_norm, post_attention_norm, pre_feed_forward_norm, post_feed_forward_norm;
  model::Residual residual = model::Residual::kPreNorm;
  double residual_scale = 1.0;  // factor of the outputs of attention and feed-forward
  Attention self_attn;
  FeedForward mlp;
  std::optional<ExpertFeedForward> experts = {};  // replaces mlp

  // Returns the layer's output [B, T, D], and keeps the activations in `kept` until backward. The
  // layer must outlive backward.
  at::Tensor operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                        layout::SavedSet kept) const;

  // Return all linear layers and all norms of the layer.
  std::vector<const Linear*> linears() const;
  std::vector<Linear*> linears();
  std::vector<const Norm*> norms() const;
};

// Returns y_BTD of the layer's equation, without activation checkpointing:
//
//   h = x + s * post_attention_norm(o_proj(attend(norm_and_rope(qkv(input_norm(x))))))
//   y = h + s * post_feed_forward_norm(feed_forward(pre_feed_forward_norm(h)))
//
// with s = residual_scale. If attention and feed-forward are parallel (model::Residual), the
// feed-forward reads pre_feed_forward_norm(x) or, with one shared norm, input_norm(x).
// Tests compare DecoderLayer, which may recompute parts of the layer, with this function.
at::Tensor plain_layer(const DecoderLayer& layer, const at::Tensor& x_BTD,
                       const Rotation& rotation);

}  // namespace am::nn
