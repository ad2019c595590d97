// Context-parallel attention that all-gathers the keys and values of all ranks, in forward and
// again in backward; a reduce-scatter sums their gradients over the ranks in float32. Compared with
// ring attention, this method needs one message instead of many, but memory for the keys and values
// of whole sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Computes attention with all-gathered keys and values over the group `ranks`. All other arguments
// and the result are those of an nn::AttentionCore. Collective.
at::Tensor all_gather_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                                const std::optional<at::Tensor>& sinks_H,
                                const SequenceGroup& ranks);

}  // namespace am::parallel::cp
