// Ring attention (Liu et al., 2023): the keys and values of all ranks pass through each rank, and
// the attention outputs are merged by their log-sum-exp.
//
// At step i, rank r attends to the keys of rank (r - i) modulo the number of ranks (the keys'
// owner), while it receives the keys of the next step. Backward sends the keys and values around
// the ring once more. Their gradients follow one step later and end at the owners. A step is
// skipped if, on every rank, the attention window hides all keys of the step from the queries.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Merges attention over two disjoint sets of keys, with equal queries: writes the attention over
// all keys of `sum` and `with` to `sum`, in place.
void merge(const nn::Attended& sum, const nn::Attended& with);

// Returns ring attention over the group `ranks`. All other arguments and the result are those of an
// nn::AttentionCore (nn/attention/attention.h). Collective.
at::Tensor ring_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                          const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
