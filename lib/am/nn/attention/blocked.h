// Causal attention a block of queries at a time: for windows, packed documents, soft-capped scores,
// sinks, and values of another width than keys, which ATen's flash kernel takes with a mask of [T,
// T] or not at all.
//
//   const at::Tensor out_BHTV = blocked_attention(q_BHTK, k_BGTK, v_BGTV, {.scale = 0.125, .window = 4096});
//
// A block of queries reads the keys that its window reaches and no others. Keeps its inputs and a
// logarithm a query and head until backward, as flash attention does (Dao et al., 2022), but not
// the output: a block has all keys that its queries see. Backward makes the scores again. Scores
// and sums are float32 (float64 for float64). Legend: B batch, H query heads, G key heads, T
// sequence, K and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::nn {

struct Look {
  double scale = 1.0;                     // of the scores
  std::optional<double> softcap = {};     // c: scores become c * tanh(score / c)
  int64_t window = 0;                     // positions looked back at, itself included; 0: all
  at::Tensor document_BT = at::Tensor();  // int64; queries see keys of their own document alone
};

// G divides H: query head h reads key head h / (H / G). The output lies as [B, T, H, V] in memory.
// `sinks_H`: the score of a key of each head that every query sees, and whose value is 0 (attention
// sinks, Xiao et al., 2023, as gpt-oss trains them).
at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const Look& look,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
