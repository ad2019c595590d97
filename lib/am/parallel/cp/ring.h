// Ring attention (Liu et al., 2023): the keys and values of all ranks pass through each rank, and
// the attention outputs are merged by their log-sum-exp.
//
// At step i, rank r attends to the keys of rank r - i (their owner) while it receives the keys of
// the next step. Backward sends keys and values around the ring once more; their gradients follow
// one step later and end at the owners. Steps at which the window hides all keys from the queries
// of all ranks are skipped.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Merges attention over two disjoint sets of keys, in place: `sum` becomes the attention over the
// keys of both sets.
void merge(const nn::Attended& sum, const nn::Attended& with);

// Computes ring attention over the group `ranks`. All other arguments and the result are those of
// an nn::AttentionCore. Collective.
at::Tensor ring_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                          const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
