// Causal attention a block of queries at a time: for windows, packed documents, soft-capped scores,
// sinks, and values of another width than keys, which ATen's flash kernel takes with a mask of [T,
// T] or not at all.
//
//   const at::Tensor out_BHTV = blocked_attention(q_BHTK, k_BGTK, v_BGTV, {.scale = 0.125, .window = 4096});
//
// Keeps its inputs and a logarithm a query and head until backward, as flash attention does (Dao et
// al., 2022), but not the output: a block has all keys that its queries see. Backward makes the
// scores again. Where flash kernels compute (flash.h), it keeps the output too, which is what the
// projection behind it reads. Legend: B batch, H query heads, G key heads, T sequence, K and V
// widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// The output lies as [B, T, H, V] in memory. `sinks_H`: see attend.
at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const Look& look,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

// What `attend` fills, in tensors of its own; products are the dtypes' own, whatever autocast says.
Attended attended(const Heads& heads, const Look& look, const Firsts& firsts,
                  const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
