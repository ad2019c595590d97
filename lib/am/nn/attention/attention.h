// Causal attention of whole sequences, and the callback type for attention of sequences that are
// sharded over several ranks.
//
//   const at::Tensor out_BHTV = attention({q_BHTK, k_BGTK, v_BGTV}, {.scale = 0.125});
//
// Legend: B batch, H query heads, G key heads, T sequence, K and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Returns the output of attention [B, H, T, V]. Calls at::scaled_dot_product_attention if it
// supports the arguments, and otherwise blocked_attention(). Flash kernels and blocked_attention()
// store the output as [B, T, H, V] in memory. `sinks_H` is described at attend().
at::Tensor attention(const Qkv& heads, const AttentionParams& params,
                     const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Function that computes attention for the queries of this rank's positions. The arguments
// AttentionParams::window and AttentionParams::document_BT refer to positions of the whole
// sequences, padding included.
using AttentionCore = std::function<at::Tensor(const Qkv& heads, const AttentionParams& params,
                                               const std::optional<at::Tensor>& sinks_H)>;
using AttentionCorePtr = std::shared_ptr<const AttentionCore>;

// Returns `heads` in the autocast dtype if autocast is on, otherwise unchanged.
Qkv narrowed(const Qkv& heads);

}  // namespace am::nn
