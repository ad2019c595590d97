// Ring attention (Liu et al., 2023): keys and values of one rank after the other pass by, and what
// queries make of each is merged by its logarithms.
//
// Step by step the keys of owner r - i are here, while those of the next one come. Backward passes
// them round once more and, one step behind, the gradients of keys and values, which end at their
// owners. Owners whose keys no rank's queries see, because of a window, are left out.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Of two parts of the keys, what queries make of both: `with` is joined to `sum`, in place.
void merge(const nn::Attended& sum, const nn::Attended& with);

// As nn::AttentionCore; collective.
at::Tensor ring_attention(const nn::Heads& heads, const nn::Look& look,
                          const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
