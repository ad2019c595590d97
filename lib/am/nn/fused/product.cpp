#include "am/nn/fused/product.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "am/model/host_products.h"
#include "am/nn/fused/dense.h"
#include "am/nn/fused/split_product.h"

namespace am::nn::fused {

namespace {

// Signature of oneDNN's operator, which returns x weight^T for the arguments x_MK, weight_NK, bias,
// attribute, scalars, algorithm.
using Multiply = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>);

// Returns oneDNN's operator, or nullopt if libtorch was built without oneDNN or if the operator has
// another signature.
std::optional<c10::TypedOperatorHandle<Multiply>> find_multiply() {
  const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  try {
    return found->typed<Multiply>();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

const std::optional<c10::TypedOperatorHandle<Multiply>>& multiply() {
  static const auto found = find_multiply();
  return found;
}

bool fits(const at::Tensor& a, const at::Tensor& b) {
  return (a.device().is_cpu() || a.is_meta()) && a.scalar_type() == at::kFloat &&
         b.scalar_type() == at::kFloat && a.numel() > 0 && b.numel() > 0;
}

// Largest number of elements of a transposed left operand that are copied at a time. The copy is
// necessary because oneDNN's operator requires a dense left operand.
constexpr int64_t kMostCopied = model::kMostTransposed;

// Copies a_MK to dense rows unless its rows are dense already, and multiplies. On the meta device
// the copy is allocated too, and at::mm returns a tensor of the product's shape.
at::Tensor multiply_dense(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const at::Tensor dense_MK = dense(a_MK);
  if (dense_MK.is_meta()) return dense_MK.mm(b_KN);
  const at::AutoDispatchBelowAutograd below;
  return multiply()->call(dense_MK, b_KN.t(), std::nullopt, "none",
                          c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace

bool multiplies_split(int64_t rows, int64_t columns, int64_t depth) {
  return is_worth_splitting(rows, columns, depth) && splits_products();
}

bool multiplies_with_onednn() {
  return model::products_are_onednns() && at::globalContext().userEnabledMkldnn() &&
         multiply().has_value();
}

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  if (!fits(a_MK, b_KN)) return a_MK.mm(b_KN);
  if (!a_MK.is_meta() && multiplies_split(a_MK.size(0), b_KN.size(1), a_MK.size(1))) {
    at::Tensor c_MN = split_product(a_MK, b_KN);
    if (c_MN.defined()) return c_MN;
  }
  if (!multiplies_with_onednn()) return a_MK.mm(b_KN);
  if (a_MK.is_contiguous() || a_MK.numel() <= kMostCopied) return multiply_dense(a_MK, b_KN);
  at::Tensor c_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  const int64_t most = std::max<int64_t>(1, kMostCopied / a_MK.size(1));
  for (int64_t first = 0; first < a_MK.size(0); first += most) {
    const int64_t rows = std::min(most, a_MK.size(0) - first);
    c_MN.narrow(0, first, rows).copy_(multiply_dense(a_MK.narrow(0, first, rows), b_KN));
  }
  return c_MN;
}

}  // namespace am::nn::fused
