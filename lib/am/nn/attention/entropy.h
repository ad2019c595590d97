// Entropy of the attention probabilities of each query. Training may diverge when the entropy falls
// towards 0, because heads then read single tokens (Zhai et al., 2023).
//
//   const at::Tensor entropy_BHT = attention_entropy({q_BHTK, k_BGTK, v_BGTV}, params);
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Returns the entropy of each query in nats [B, H, T], in the dtype of the scores: 0 if the query
// reads one key, log(n) if it reads n keys equally. The arguments are those of attention(); a sink
// counts as a key. Computes the scores of some queries at a time, with products in float32 (float64
// for float64). Builds no autograd graph.
at::Tensor attention_entropy(const Qkv& heads, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
