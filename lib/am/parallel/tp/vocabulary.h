// Embedding look-up and cross-entropy on slices of a vocabulary that is sharded over a group,
// without gathering the logits.
//
// Legend: N tokens, v this rank's slice of the vocabulary, D hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "am/mesh/shard.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/runtime/group.h"

namespace am::parallel::tp {

// Returns the embeddings of `ids`, with zeros for ids outside the slice. The sum of the results
// over the group is the whole look-up. `weight`: rows of the embedding table that belong to the
// slice, [v, D]. `padding`: global id whose row gets no gradient.
at::Tensor lookup_slice(const at::Tensor& ids, const at::Tensor& weight, const mesh::Extent& slice,
                        std::optional<int64_t> padding = std::nullopt);

// Returns the sum of the tokens' cross-entropies over the whole vocabulary, equal on every rank.
// `logits` [.., v] and their gradient cover only this rank's slice of the vocabulary. `labels` [..]
// are global ids. Labels equal to `ignore_index` do not count; other labels outside the vocabulary
// are errors (tensor/token_check.h). Forward exchanges three numbers per token: the maximum, the
// sum of exponentials, and the label's logit. The gradient includes the gradients of `terms`.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const mesh::Extent& slice, int64_t vocabulary, int64_t ignore_index,
                             const runtime::Group& group, const nn::fused::LossTerms& terms = {});

}  // namespace am::parallel::tp
