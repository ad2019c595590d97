#include "am/parallel/tp/vocabulary.h"

#include <ATen/ATen.h>

#include "am/base/fault.h"
#include "am/nn/fused/look_up.h"
#include "am/tensor/token_check.h"

namespace am::parallel::tp {

namespace {

// Global ids, converted to indices within the slice (0 for ids outside), and whether each id is
// inside.
struct Local {
  at::Tensor index;
  at::Tensor inside;
};

Local localize(const at::Tensor& ids, const mesh::Extent& slice) {
  const int64_t beside = fault::is_planted(fault::Fault::kTpVocabOffset) ? 1 : 0;
  const at::Tensor shifted = ids - slice.offset - beside;
  const at::Tensor inside = shifted.ge(0).logical_and(shifted.lt(slice.size));
  return {at::where(inside, shifted, at::zeros_like(shifted)), inside};
}

// Combines the ranks' sums over their slices into sums over the whole vocabulary, in place.
void combine(nn::fused::LogitSums& sums, const runtime::Group& group) {
  const at::Tensor maximum_N = sums.maximum_N.clone();
  group.all_reduce(maximum_N, runtime::ReduceOp::kMax);
  sums.exponentials_N.mul_((sums.maximum_N - maximum_N).exp_());
  at::Tensor sums_2N = at::stack({sums.exponentials_N, sums.label_N});
  group.all_reduce(sums_2N);
  sums = {maximum_N, sums_2N[0], sums_2N[1]};
}

}  // namespace

at::Tensor lookup_slice(const at::Tensor& ids, const at::Tensor& weight, const mesh::Extent& slice,
                        std::optional<int64_t> padding) {
  if (slice.size == 0) {
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.push_back(weight.size(-1));
    // Adding weight.sum() gives the empty weight a gradient, so that backward runs on this rank as
    // on all other ranks.
    return at::zeros(shape, weight.options()) + weight.sum();
  }
  const Local local = localize(ids, slice);
  const int64_t padded = padding.value_or(-1) - slice.offset;
  const bool own = padding.has_value() && padded >= 0 && padded < slice.size;
  const at::Tensor rows = nn::fused::look_up(weight, local.index, own ? padded : -1);
  return rows * local.inside.unsqueeze(-1).to(rows.scalar_type());
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const mesh::Extent& slice, int64_t vocabulary, int64_t ignore_index,
                             const runtime::Group& group, const nn::fused::LossTerms& terms) {
  tensor::check_tokens(labels, "label", vocabulary, ignore_index);
  return nn::fused::cross_entropy_sum(
      logits, labels, {slice.offset, ignore_index},
      [&group](nn::fused::LogitSums& sums) { combine(sums, group); }, terms);
}

}  // namespace am::parallel::tp
