// Causal attention of whole sequences, and the callback type for attention of sequences that are
// sharded over several ranks.
//
//   const at::Tensor out_BHTV = attention({q_BHTK, k_BGTK, v_BGTV}, {.scale = 0.125});
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Computes attention by at::scaled_dot_product_attention if it supports the arguments, otherwise
// one block of queries at a time (blocked.h). The output is laid out as [B, T, H, V] in memory.
// `sinks_H` is described at attend().
at::Tensor attention(const Qkv& heads, const AttentionParams& params,
                     const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Function that computes attention for the queries of this rank's positions.
// AttentionParams::window counts positions of whole sequences, and document_BT covers whole
// sequences, padding included.
using AttentionCore = std::function<at::Tensor(const Qkv& heads, const AttentionParams& params,
                                               const std::optional<at::Tensor>& sinks_H)>;
using AttentionCorePtr = std::shared_ptr<const AttentionCore>;

// Returns `heads` in the autocast dtype if autocast is on, otherwise unchanged.
Qkv narrowed(const Qkv& heads);

}  // namespace am::nn
