// Causal attention one block of queries at a time, for windows, packed documents, ALiBi,
// soft-capped scores, sinks, and values narrower or wider than keys.
// at::scaled_dot_product_attention would need a [T, T] mask for windows, documents and ALiBi, and
// its flash kernels support none of the other features.
//
//   const at::Tensor out_BHTV =
//       blocked_attention(q_BHTK, k_BGTK, v_BGTV, {.scale = 0.125, .window = 4096});
//
// As in flash attention (Dao et al., 2022), autograd keeps the inputs and one log-sum-exp per query
// and head, and backward recomputes the scores. The output is not kept. Each block reads all keys
// that its queries see, and backward computes dO . O (the dot product of the output's gradient and
// the output) from these keys. If the flash kernels of flash.h run, the output is kept too; a
// trained output projection keeps it anyway.
//
// Legend: B batch, H query heads, G key heads, T sequence, K and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Returns attention's output [B, H, T, V], stored as [B, T, H, V] in memory. `sinks_H` is described
// at attend().
at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Allocates the result, computes it by attend() without autocast, and returns it.
Attended attended(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
