#include "am/parallel/tp/vocabulary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace am::parallel::tp {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Positions of global ids within the slice, clamped, and whether they lie in it.
struct Local {
  at::Tensor index;
  at::Tensor inside;
};

Local localize(const at::Tensor& ids, const mesh::Extent& slice) {
  const at::Tensor shifted = ids - slice.offset;
  const at::Tensor inside = shifted.ge(0).logical_and(shifted.lt(slice.size));
  return {at::where(inside, shifted, at::zeros_like(shifted)), inside};
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits_Nv,
                            const at::Tensor& labels_N, int64_t offset, int64_t size,
                            int64_t ignore_index, const runtime::Group* group) {
    at::Tensor maximum_N = size > 0 ? logits_Nv.amax(-1)
                                    : at::full({logits_Nv.size(0)}, -INFINITY, logits_Nv.options());
    group->all_reduce(maximum_N, runtime::ReduceOp::kMax);
    const at::Tensor shifted_Nv = logits_Nv - maximum_N.unsqueeze(-1);
    const at::Tensor exponential_Nv = shifted_Nv.exp();
    const Local local = localize(labels_N, {offset, size});
    at::Tensor sums_2N = at::zeros({2, labels_N.size(0)}, logits_Nv.options());
    sums_2N[0].copy_(exponential_Nv.sum(-1));
    if (size > 0) {
      sums_2N[1].copy_(shifted_Nv.gather(-1, local.index.unsqueeze(-1)).squeeze(-1) * local.inside);
    }
    group->all_reduce(sums_2N);
    const at::Tensor counted_N = labels_N.ne(ignore_index);
    const at::Tensor loss_N = (sums_2N[0].log() - sums_2N[1]) * counted_N;
    context->save_for_backward({exponential_Nv / sums_2N[0].unsqueeze(-1), local.index,
                                local.inside.logical_and(counted_N), counted_N});
    return loss_N.sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    at::Tensor gradient_Nv = saved[0] * saved[3].unsqueeze(-1);
    if (gradient_Nv.size(-1) > 0) {
      gradient_Nv.scatter_add_(-1, saved[1].unsqueeze(-1),
                               -saved[2].to(gradient_Nv.scalar_type()).unsqueeze(-1));
    }
    return {gradient_Nv * gradients[0], {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor lookup_slice(const at::Tensor& ids, const at::Tensor& weight,
                        const mesh::Extent& slice) {
  if (slice.size == 0) {
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.push_back(weight.size(-1));
    // Still a function of the weight, so that its (empty) gradient exists like on the other ranks.
    return at::zeros(shape, weight.options()) + weight.sum();
  }
  const Local local = localize(ids, slice);
  const at::Tensor rows = at::embedding(weight, local.index);
  return rows * local.inside.unsqueeze(-1).to(rows.scalar_type());
}

at::Tensor cross_entropy_sum(const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                             const mesh::Extent& slice, int64_t ignore_index,
                             const runtime::Group& group) {
  return CrossEntropy::apply(logits_Nv, labels_N, slice.offset, slice.size, ignore_index, &group);
}

}  // namespace am::parallel::tp
