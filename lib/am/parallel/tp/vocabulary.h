// Embedding params-up and cross-entropy on slices of a vocabulary that is cut over a group, without
// gathering the logits.
//
// Legend: N tokens, V vocabulary, v this rank's slice of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "am/mesh/shard.h"
#include "am/runtime/group.h"

namespace am::parallel::tp {

// Returns the rows of `weight` ([v, D], the rows from slice.offset on) for the ids in the slice,
// zeros for the others: a partial sum over the group. `padding`: global id whose row gets no
// gradient.
at::Tensor lookup_slice(const at::Tensor& ids, const at::Tensor& weight, const mesh::Extent& slice,
                        std::optional<int64_t> padding = std::nullopt);

// Returns nn::fused::cross_entropy_sum for logits_..v, this rank's slice. `labels` are global ids;
// throws Error(kUsage) for one outside `vocabulary`. Every rank gets the same value, and the
// gradient of its slice. Forward exchanges three numbers per token: the maximum, the sum of
// exponentials, and the label's logit.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const mesh::Extent& slice, int64_t vocabulary, int64_t ignore_index,
                             const runtime::Group& group);

}  // namespace am::parallel::tp
