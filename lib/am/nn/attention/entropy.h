// Entropy of the attention probabilities of each query. Training may diverge when the entropy falls
// towards 0, because heads then read single tokens (Zhai et al., 2023).
//
//   const at::Tensor entropy_BHT = attention_entropy({q_BHTK, k_BGTK, v_BGTV}, params);
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Returns the entropy of each query's probabilities in nats: 0 if the query reads one key, log(n)
// if the query reads n keys equally. The result [B, H, T] (batch, query heads, positions) is
// float32, or float64 for float64 inputs. The arguments are those of attention(); a sink counts as
// a key. Computes the scores of a range of queries at a time. Builds no autograd graph.
at::Tensor attention_entropy(const Qkv& heads, const AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H = std::nullopt);

}  // namespace am::nn
