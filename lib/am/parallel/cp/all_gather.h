// Attention with the keys and values of all ranks at once: gathered in forward and again in
// backward, whose gradients are summed over the ranks in float32. One message in the place of the
// ring's many, for the memory of a whole sequence's keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// As nn::AttentionCore; collective.
at::Tensor all_gather_attention(const nn::Heads& heads, const nn::Look& look,
                                const std::optional<at::Tensor>& sinks_H,
                                const SequenceGroup& ranks);

}  // namespace am::parallel::cp
