// DeepSpeed-Ulysses attention (Jacobs et al., 2023): before attention, an all-to-all turns all
// heads of a part of each sequence into some heads of whole sequences; after attention, a second
// all-to-all reverses the exchange. If the number of ranks does not divide the key heads, each key
// head is sent to several ranks and its gradients are summed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// Computes Ulysses attention over the group `ranks`. All other arguments and the result are those
// of an nn::AttentionCore. Collective. The group's size must divide H, and each rank must have
// consecutive positions, in the order of the ranks.
at::Tensor ulysses_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
