// One layer of a decoder: attention and the feed-forward, each behind its norm.
//
// Activation checkpointing is part of the one forward pass: the layer is cut into parts, and a part
// whose tensors are not in the set of what is kept (planner/saved_activations.h) runs as a segment
// that computes itself again (checkpoint.h).
//
//   y_BTD = layer(x_BTD, rotation, planner::kept_under(config::ActivationCheckpointing::kFull));
//
// Legend: B batch, T sequence, D hidden, H query heads, G key/value heads, K head_dim, F
// feed-forward, X a projection's width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "am/nn/checkpoint.h"
#include "am/nn/layers.h"
#include "am/nn/rope.h"
#include "am/planner/saved_activations.h"

namespace am::nn {

struct Attention {
  Linear q_proj, k_proj, v_proj, o_proj;
  RMSNorm q_norm, k_norm;  // weight null where the family has none
  int64_t head_dim = 0;
  int64_t window = 0;  // positions looked back at, itself included; 0: all

  // Heads are counted from the projections' own sizes, so a tensor-parallel slice computes its
  // heads. One of q_BTX and k_BTX with its norm (which may have no weight) -> BHTK, rotated.
  at::Tensor place(const at::Tensor& x_BTX, const RMSNorm& norm, const Rotation& rotation) const;
  // Queries and keys that were placed, v_BTX -> BTX: the input of o_proj.
  at::Tensor mix(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const at::Tensor& v_BTX,
                 const Rotation& rotation) const;
};

struct FeedForward {
  Linear gate_proj, up_proj, down_proj;

  // x_BTD -> BTD, before down_proj.finish. Outside of a segment the activation is not kept either.
  at::Tensor product(const at::Tensor& x_BTD, bool keeps_gate, Products& products) const;
};

struct DecoderLayer {
  RMSNorm input_layernorm, post_attention_layernorm;
  Attention self_attn;
  FeedForward mlp;

  // x_BTD -> BTD. The layer must outlive backward.
  at::Tensor operator()(const at::Tensor& x_BTD, const Rotation& rotation,
                        planner::SavedSet kept) const;
};

}  // namespace am::nn
