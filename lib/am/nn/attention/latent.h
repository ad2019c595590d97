// Multi-head latent attention (DeepSeek-V2, 2024): queries, keys and values of all heads are made
// of narrow vectors, one or two a token, and a part of each key is rotated and the same for all
// heads.
//
// Legend: B batch, T sequence, H heads, K = N + R width of queries and keys, of which R turn, V
// width of values, L widths of the narrow vectors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "am/nn/layers.h"
#include "am/nn/rope.h"

namespace am::nn {

struct LatentHeads {
  Norm query_norm, key_value_norm;
  std::optional<Linear> query_up;  // L -> H * K; none: queries are projected from the hidden state
  Linear key_value_up;             // L -> H * (N + V)
  int64_t rotated = 0;             // R
  int64_t value_width = 0;         // V
  bool interleaved = true;         // neighbours turn together, not halves
  TransformPtr key_input = {};     // of the rotated part, which all heads read

  struct Heads {
    at::Tensor q_BHTK, k_BHTK, v_BHTV;
  };
  // query_BTX: the queries' narrow vector, or H * K where there is none. Heads are counted from the
  // projections' own sizes. `head_width`: K.
  Heads make(const at::Tensor& query_BTX, const at::Tensor& key_value_BTL,
             const at::Tensor& key_BTR, int64_t head_width, const Rotation& rotation) const;
};

}  // namespace am::nn
