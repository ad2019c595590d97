// Attention with heads in the place of positions (DeepSpeed-Ulysses, Jacobs et al., 2023): each
// rank gives the others their heads of its positions, has whole sequences of some heads, and gives
// what attention makes of them back. Key heads that the ranks do not divide are sent to several,
// and their gradients are summed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "am/nn/attention/block_kernel.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

// As nn::AttentionCore; collective. The group's size divides H, and positions follow each other
// from rank to rank.
at::Tensor ulysses_attention(const nn::Heads& heads, const nn::Look& look,
                             const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks);

}  // namespace am::parallel::cp
