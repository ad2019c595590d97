// Context-parallel attention that all-gathers the keys and values of all ranks, in forward and
// again in backward. In backward, a reduce-scatter sums the gradients of keys and values over the
// ranks, in float32 (float64 for float64). Forward needs one collective, whereas ring attention
// sends a message at each step. In exchange, every rank needs memory for the keys and values of
// whole sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Returns attention with keys and values that are gathered over the group `ranks`. All other
// arguments and the result are those of an nn::AttentionCore (nn/attention/attention.h).
// Collective.
at::Tensor all_gather_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                                const std::optional<at::Tensor>& sinks_H,
                                const SequenceGroup& ranks);

}  // namespace am::parallel::cp
