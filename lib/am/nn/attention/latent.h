// Multi-head latent attention (DeepSeek-V2, 2024). Keys and values of all heads are projected from
// one low-rank vector per token. Queries are projected from another low-rank vector or from the
// hidden state. All heads share the rotated part of the key.
//
// Legend: B batch, T sequence, H heads, K = N + R width of queries and keys (N elements are not
// rotated, R elements are), V width of values, L width of the low-rank vector of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "am/nn/layers.h"
#include "am/nn/rope.h"

namespace am::nn {

struct LatentHeads {
  Norm query_norm, key_value_norm;
  // Projects the queries' low-rank vector to H * K elements; empty: queries are projected directly
  // from the hidden state.
  std::optional<Linear> query_up;
  // Projects the low-rank vector of keys and values to H * (N + V) elements: the N elements of each
  // head's key that are not rotated, and its value.
  Linear key_value_up;
  int64_t rotated = 0;          // R, the number of rotated elements of a query or key
  int64_t value_width = 0;      // V, the width of a head's values
  bool interleaved = true;      // whether RoPE pairs element 2i with 2i + 1; false: i with i + R/2
  TransformPtr key_input = {};  // transform of the rotated part of the keys, which all heads share

  struct Qkv {
    at::Tensor q_BHTK, k_BHTK, v_BHTV;
  };
  // Returns the heads' queries, keys and values. query_BTX contains the queries' low-rank vectors
  // or, if `query_up` is empty, the queries (X = H * K). key_value_BTL contains the low-rank
  // vectors of keys and values, and key_BTR the shared part of the keys before the rotation.
  // `head_width` is K. H follows from the projections' sizes.
  Qkv make(const at::Tensor& query_BTX, const at::Tensor& key_value_BTL, const at::Tensor& key_BTR,
           int64_t head_width, const Rotation& rotation) const;
};

}  // namespace am::nn
