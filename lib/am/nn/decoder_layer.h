// One layer of a decoder: attention and the feed-forward, with a norm before each, after each, or
// both; or both side by side, behind one norm or one each.
//
// Activation checkpointing is part of the one forward pass: the layer is cut into parts, and a part
// whose tensors are not in the set of what is kept (planner/saved_activations.h) runs as a segment
// that computes itself again (checkpoint.h).
//
//   y_BTD = layer(x_BTD, rotation, planner::kept_under(config::ActivationCheckpointing::kFull, layer.residual));
//
// Legend: B batch, T sequence, D hidden, H query heads, G key/value heads, K head_dim, F
// feed-forward, X a projection's width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "am/nn/attention/attention.h"
#include "am/nn/attention/latent.h"
#include "am/nn/checkpoint.h"
#include "am/nn/experts/expert_feed_forward.h"
#include "am/nn/layers.h"
#include "am/nn/projections.h"
#include "am/nn/rope.h"
#include "am/planner/saved_activations.h"

namespace am::nn {

struct Attention {
  // Queries, keys and values; under latent attention the narrow vectors and the rotated key.
  Projections inputs;
  std::optional<LatentHeads> latent;
  Linear o_proj;
  Norm q_norm, k_norm;
  bool norms_span_heads = false;  // all heads are normalised together, not each
  // How many query heads lie before each key head and its values in one matrix; 0: queries, keys
  // and values come one after the other.
  int64_t by_key_head = 0;
  int64_t head_dim = 0;
  double scale = 1.0;                  // of the scores
  std::optional<double> softcap = {};  // c: scores become c * tanh(score / c)
  int64_t window = 0;                  // positions looked back at, itself included; 0: all
  int rope = 0;                // index into model::DecoderSpec::ropes; -1: heads are not rotated
  ParameterPtr sinks = {};     // [H]; null: none (attention/block_kernel.h)
  AttentionCorePtr core = {};  // null: this rank has whole sequences

  // What inputs.products gives -> {q_BTX, k_BTX, v_BTX}, or what latent->make takes.
  Tensors finish(const Tensors& products) const;
  // Heads are counted from the projections' own sizes, so a tensor-parallel slice computes its
  // heads. One of q_BTX and k_BTX with its norm (which may have no weight) -> BHTK, rotated.
  at::Tensor place(const at::Tensor& x_BTX, const Norm& norm, const Rotation& rotation) const;
  // Queries and keys that were placed, v_BGTV -> BT(H*V): the input of o_proj.
  at::Tensor mix(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                 const Rotation& rotation) const;
};

struct FeedForward {
  Projections inputs;  // gate and up, or up alone
  Linear down_proj;
  bool gated = true;
  model::Activation activation = model::Activation::kSilu;

  // x_BTD -> BTD, before down_proj.finish. Outside of a segment the activation is not kept either.
  // `leaves`: the segment ends with this product.
  at::Tensor product(const at::Tensor& x_BTD, bool keeps_gate, bool leaves,
                     Products& products) const;
};

struct DecoderLayer {
  // Those that the family has (model::Residual); the others are the identity.
  Norm input_norm, post_attention_norm, pre_feed_forward_norm, post_feed_forward_norm;
  model::Residual residual = model::Residual::kPreNorm;
  Attention self_attn;
  FeedForward mlp;
  std::optional<ExpertFeedForward> experts = {};  // in the place of mlp

  // x_BTD -> BTD. The layer must outlive backward.
  at::Tensor operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                        planner::SavedSet kept) const;

  // All that it has of each.
  std::vector<const Linear*> linears() const;
  std::vector<Linear*> linears();
  std::vector<const Norm*> norms() const;
};

}  // namespace am::nn
