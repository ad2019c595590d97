// Causal attention one block of queries at a time: for windows, packed documents, ALiBi,
// soft-capped scores, sinks, and values narrower or wider than keys. ATen's flash kernel would need
// a [T, T] mask for windows, documents and ALiBi, and supports none of the other features.
//
//   const at::Tensor out_BHTV =
//       blocked_attention(q_BHTK, k_BGTK, v_BGTV, {.scale = 0.125, .window = 4096});
//
// Like flash attention (Dao et al., 2022), keeps its inputs and one logarithm per query and head
// until backward, which recomputes the scores. The output is not kept: each block holds all keys
// that its queries see, from which backward recomputes dO . O. Flash kernels (flash.h) keep the
// output too, which a trained output projection keeps anyway. Legend: B batch, H query heads, G key
// heads, T sequence, K and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Returns attention's output, laid out as [B, T, H, V] in memory. `sinks_H` is described at
// attend().
at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Allocates the result, calls attend() and returns the result. Autocast does not apply.
Attended attended(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
