// The vocabulary cut over a group: embedding look-up and cross-entropy on slices, logits never
// gathered.
//
// Legend: N tokens, V vocabulary, v this rank's slice of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "am/mesh/shard.h"
#include "am/runtime/group.h"

namespace am::parallel::tp {

// Rows of `weight` ([v, D], the rows slice.offset ..) for the ids that lie in the slice, zeros for
// the others: a partial sum over the group. `padding`: a global id whose row gets no gradient.
at::Tensor lookup_slice(const at::Tensor& ids, const at::Tensor& weight, const mesh::Extent& slice,
                        std::optional<int64_t> padding = std::nullopt);

// nn::fused::cross_entropy_sum of logits_..v, this rank's slice; labels are global ids
// of `vocabulary`; one outside it throws Error(kUsage). Same value on every rank, and each rank's
// gradient for its own slice. Forward exchanges three numbers a token: the maximum, the sum of
// exponentials, and the label's logit.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const mesh::Extent& slice, int64_t vocabulary, int64_t ignore_index,
                             const runtime::Group& group);

}  // namespace am::parallel::tp
