// DeepSpeed-Ulysses attention (Jacobs et al., 2023). Before attention, each rank holds all heads of
// a part of each sequence; an all-to-all exchanges these heads for some heads of whole sequences.
// After attention, a second all-to-all reverses the exchange. If the number of ranks does not
// divide the number of key heads, each key head and its value head are sent several times, and the
// gradients of the copies are summed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Returns Ulysses attention over the group `ranks`. All other arguments and the result are those of
// an nn::AttentionCore (nn/attention/attention.h). Collective. The group's size must divide the
// number of query heads, and the order of `ranks` must be SequenceOrder::kContiguous.
at::Tensor ulysses_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
