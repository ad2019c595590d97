#include "am/nn/experts/dispatch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>

#include "am/nn/fused/device.h"
#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn {

namespace {

using fused::for_lanes;
using fused::load;
using fused::store;
using fused::Vector;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sets y to the sum of `count` rows. The rows are added in order, and the sum is rounded once.
template <typename Scalar>
struct AddRows {
  template <int kBytes>
  AM_INLINE static void run(Scalar* y, const Scalar* const* rows, int64_t count, int64_t width) {
    for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
      Vector<Scalar, kBytes> sum = load(rows[0] + i, part);
      for (int64_t j = 1; j < count; ++j) sum = sum + load(rows[j] + i, part);
      store(y + i, part, sum);
    });
  }
};

// Returns the address of each row of several tensors, in order.
template <typename Scalar>
std::vector<const Scalar*> starts_of(at::TensorList tensors, int64_t rows) {
  std::vector<const Scalar*> starts;
  starts.reserve(static_cast<size_t>(rows));
  for (const at::Tensor& each : tensors) {
    for (int64_t r = 0; r < each.size(0); ++r) {
      starts.push_back(each.const_data_ptr<Scalar>() + r * each.size(1));
    }
  }
  return starts;
}

// Returns the rows of several tensors as one tensor. The result is a view if the tensors are
// adjacent in one storage, otherwise a copy.
at::Tensor joined(at::TensorList rows) {
  const int64_t width = rows[0].size(1);
  const at::Tensor* first = nullptr;
  int64_t count = 0;
  for (const at::Tensor& each : rows) {
    if (each.numel() == 0) continue;
    if (first == nullptr) first = &each;
    const int64_t offset = first->storage_offset() + count * width;
    if (!each.is_contiguous() || !each.is_alias_of(*first) || each.storage_offset() != offset) {
      return at::cat(rows);
    }
    count += each.size(0);
  }
  return first == nullptr ? rows[0] : first->as_strided({count, width}, {width, 1});
}

at::Tensor sum_by_gpu(at::TensorList rows, const at::Tensor& slot_Nk, const at::Tensor& added_ND) {
  const at::Tensor rows_RD = joined(rows);
  if (const auto* gpu = tensor::gpu_kernels(rows_RD); gpu != nullptr) {
    const at::Tensor sum_ND = at::empty({slot_Nk.size(0), rows_RD.size(1)}, rows_RD.options());
    const at::Tensor added = added_ND.defined() ? added_ND.contiguous() : added_ND;
    if (gpu->sum_of_rows(sum_ND, rows_RD, slot_Nk.contiguous(), added)) return sum_ND;
  }
  at::Tensor sum_ND = rows_RD.index_select(0, slot_Nk.select(1, 0));
  for (int64_t j = 1; j < slot_Nk.size(1); ++j) {
    sum_ND.add_(rows_RD.index_select(0, slot_Nk.select(1, j)));
  }
  if (added_ND.defined()) sum_ND.add_(added_ND);
  return sum_ND;
}

}  // namespace

at::Tensor sum_of_slots(at::TensorList rows, const at::Tensor& slot_Nk,
                        const at::Tensor& added_ND) {
  if (!fused::has_kernels(rows[0]) || tensor::gpu_kernels(rows[0]) != nullptr) {
    return sum_by_gpu(rows, slot_Nk, added_ND);
  }
  const int64_t tokens = slot_Nk.size(0), top_k = slot_Nk.size(1), width = rows[0].size(1);
  at::Tensor sum_ND = at::empty({tokens, width}, rows[0].options());
  if (sum_ND.is_meta()) return sum_ND;
  std::vector<at::Tensor> dense;
  for (const at::Tensor& each : rows) dense.push_back(each.contiguous());
  const at::Tensor added = added_ND.defined() ? added_ND.contiguous() : at::Tensor();
  const auto* slots = slot_Nk.const_data_ptr<int64_t>();
  fused::visit_dtype(sum_ND.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    const auto starts = starts_of<Scalar>(dense, tokens * top_k);
    fused::for_rows(tokens, top_k * width, [&](int64_t begin, int64_t end) {
      std::vector<const Scalar*> of_token(static_cast<size_t>(top_k + 1));
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t j = 0; j < top_k; ++j) {
          of_token[static_cast<size_t>(j)] = starts[static_cast<size_t>(slots[t * top_k + j])];
        }
        if (added.defined()) of_token.back() = added.const_data_ptr<Scalar>() + t * width;
        fused::run_kernel<AddRows<Scalar>>(sum_ND.mutable_data_ptr<Scalar>() + t * width,
                                           of_token.data(), top_k + (added.defined() ? 1 : 0),
                                           width);
      }
    });
  });
  return sum_ND;
}

at::Tensor by_slot(const at::Tensor& weights_Nk, const at::Tensor& slot_Nk, int64_t rows) {
  const auto& options = weights_Nk.options();
  at::Tensor weight_R =
      rows == slot_Nk.numel() ? at::empty({rows}, options) : at::zeros({rows}, options);
  return weight_R.scatter_(0, slot_Nk.view(-1), weights_Nk.view(-1));
}

namespace {

// Returns views of each expert's rows.
variable_list parts_of(const at::Tensor& rows, const std::vector<int64_t>& counts) {
  return rows.split_with_sizes(counts);
}

// Replaces undefined gradients by zeros. `row` is the shape of one row.
variable_list filled(const variable_list& gradients, at::IntArrayRef counts, at::IntArrayRef row,
                     const at::TensorOptions& options) {
  variable_list all;
  for (size_t e = 0; e < gradients.size(); ++e) {
    std::vector<int64_t> shape = {counts[e]};
    shape.insert(shape.end(), row.begin(), row.end());
    all.push_back(gradients[e].defined() ? gradients[e] : at::zeros(shape, options));
  }
  return all;
}

struct Dispatch : torch::autograd::Function<Dispatch> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x_ND,
                               const Placement* placed) {
    context->save_for_backward({placed->slot_Nk});
    context->saved_data["counts"] = placed->counts;
    context->saved_data["width"] = x_ND.size(1);
    context->saved_data["dtype"] = x_ND.scalar_type();
    return parts_of(x_ND.index_select(0, placed->token_R), placed->counts);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor slot_Nk = context->get_saved_variables()[0];
    auto& data = context->saved_data;
    const variable_list of_rows =
        filled(gradients, data["counts"].toIntVector(), {data["width"].toInt()},
               slot_Nk.options().dtype(data["dtype"].toScalarType()));
    return {sum_of_slots(of_rows, slot_Nk), at::Tensor()};
  }
};

struct Deal : torch::autograd::Function<Deal> {
  static variable_list forward(AutogradContext* context, const at::Tensor& weights_Nk,
                               const Placement* placed) {
    context->save_for_backward({placed->slot_Nk});
    context->saved_data["counts"] = placed->counts;
    context->saved_data["dtype"] = weights_Nk.scalar_type();
    return parts_of(by_slot(weights_Nk, placed->slot_Nk, placed->token_R.size(0)), placed->counts);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor slot_Nk = context->get_saved_variables()[0];
    auto& data = context->saved_data;
    const variable_list of_rows = filled(gradients, data["counts"].toIntVector(), {},
                                         slot_Nk.options().dtype(data["dtype"].toScalarType()));
    return {at::cat(of_rows).index_select(0, slot_Nk.view(-1)).view_as(slot_Nk), at::Tensor()};
  }
};

struct Combine : torch::autograd::Function<Combine> {
  static at::Tensor forward(AutogradContext* context, at::TensorList rows,
                            const std::optional<at::Tensor>& added_ND, const Placement* placed,
                            bool unread) {
    context->save_for_backward({placed->token_R});
    context->saved_data["counts"] = placed->counts;
    context->saved_data["adds"] = added_ND.has_value();
    if (unread) {
      return at::zeros({}, rows[0].options()).expand({placed->slot_Nk.size(0), rows[0].size(1)});
    }
    return sum_of_slots(rows, placed->slot_Nk, added_ND.value_or(at::Tensor()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor token_R = context->get_saved_variables()[0];
    variable_list of = parts_of(gradients[0].index_select(0, token_R),
                                context->saved_data["counts"].toIntVector());
    of.push_back(context->saved_data["adds"].toBool() ? gradients[0] : at::Tensor());
    of.insert(of.end(), 2, at::Tensor());
    return of;
  }
};

std::vector<int64_t> counted(const at::Tensor& ids_R, int64_t experts) {
  if (ids_R.is_meta()) return split_evenly(ids_R.numel(), experts);
  const at::Tensor counts_E =
      at::zeros({experts}, ids_R.options()).scatter_add_(0, ids_R, at::ones_like(ids_R)).cpu();
  const auto* first = counts_E.const_data_ptr<int64_t>();
  return {first, first + experts};
}

// Inserts padding after each expert's rows, which moves the rows of later experts.
void pad_experts(Placement& placed, const at::Tensor& ids_Nk, int64_t multiple) {
  std::vector<int64_t> shift_of_expert;
  int64_t shift = 0;
  for (int64_t& count : placed.counts) {
    shift_of_expert.push_back(shift);
    const int64_t padded = (count + multiple - 1) / multiple * multiple;
    shift += padded - count;
    count = padded;
  }
  const at::Tensor shift_E =
      fused::uploaded(at::tensor(shift_of_expert, at::kLong), ids_Nk.device());
  placed.slot_Nk = placed.slot_Nk + shift_E.index_select(0, ids_Nk.reshape({-1})).view_as(ids_Nk);
  const at::Tensor token_R = placed.token_R;
  const int64_t k = ids_Nk.size(1);
  placed.token_R = at::zeros({token_R.size(0) + shift}, token_R.options());
  placed.token_R.scatter_(
      0, placed.slot_Nk.view(-1),
      at::arange(ids_Nk.size(0), token_R.options()).unsqueeze(1).expand({-1, k}).reshape({-1}));
}

}  // namespace

std::vector<int64_t> split_evenly(int64_t rows, int64_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts), rows / experts);
  for (int64_t e = 0; e < rows % experts; ++e) ++counts[static_cast<size_t>(e)];
  return counts;
}

Placement place_by_expert(const at::Tensor& ids_Nk, int64_t experts, int64_t multiple) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids_R = ids_Nk.reshape({-1});
  const at::Tensor order_R = std::get<1>(at::sort(ids_R, std::optional<bool>(true), /*dim=*/0));
  Placement placed;
  placed.token_R = order_R.div(ids_Nk.size(1), "floor");
  placed.slot_Nk = at::empty_like(ids_R)
                       .scatter_(0, order_R, at::arange(ids_R.size(0), ids_R.options()))
                       .view_as(ids_Nk);
  placed.counts = placed.routed = counted(ids_R, experts);
  if (multiple > 1) pad_experts(placed, ids_Nk, multiple);
  return placed;
}

int64_t padded_multiple(const at::Tensor& ids_Nk, int64_t experts) {
  constexpr int64_t kMultiple = 64;
  constexpr int64_t kFewest = 8 * kMultiple;  // mean rows per expert from which padding pays off
  const bool worth_it = fused::on_gpu(ids_Nk) && ids_Nk.numel() >= kFewest * experts;
  return worth_it ? kMultiple : 1;
}

std::vector<at::Tensor> dispatch(const at::Tensor& x_ND, const Placement& placed) {
  return Dispatch::apply(x_ND, &placed);
}

std::vector<at::Tensor> deal(const at::Tensor& weights_Nk, const Placement& placed) {
  return Deal::apply(weights_Nk, &placed);
}

at::Tensor combine(const std::vector<at::Tensor>& rows, const Placement& placed,
                   const at::Tensor& added_ND, bool unread) {
  std::optional<at::Tensor> added;
  if (added_ND.defined()) added = added_ND;
  return Combine::apply(at::TensorList(rows), added, &placed, unread);
}

}  // namespace am::nn
