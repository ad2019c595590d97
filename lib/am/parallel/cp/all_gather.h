// Context-parallel attention that all-gathers the keys and values of all ranks, in forward and
// again in backward; a reduce-scatter sums their gradients over the ranks in float32. It needs one
// message instead of a ring's many, and memory for the keys and values of whole sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Computes attention by this method, as an nn::AttentionCore, over the group `ranks`. Collective.
at::Tensor all_gather_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                                const std::optional<at::Tensor>& sinks_H,
                                const SequenceGroup& ranks);

}  // namespace am::parallel::cp
