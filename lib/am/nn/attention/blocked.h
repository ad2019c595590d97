// Causal attention one block of queries at a time: for windows, packed documents, soft-capped
// scores, sinks, and values narrower or wider than keys. ATen's flash kernel needs a [T, T] mask
// for some of these and does not support the others.
//
//   const at::Tensor out_BHTV = blocked_attention(q_BHTK, k_BGTK, v_BGTV, {.scale = 0.125, .window = 4096});
//
// Keeps its inputs and one logarithm per query and head until backward, like flash attention (Dao
// et al., 2022), but not the output, since each block holds all keys that its queries see. Backward
// recomputes the scores. With flash kernels (flash.h) the output is kept too; the next projection
// reads it anyway. Legend: B batch, H query heads, G key heads, T sequence, K and V widths of keys
// and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// The output is [B, T, H, V] in memory. `sinks_H`: see attend.
at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Calls `attend` on newly allocated tensors; products ignore autocast.
Attended attended(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
