#include "am/nn/fused/fp8.h"

#include <ATen/ATen.h>

#include <limits>

#include "am/base/fault.h"
#include "am/model/spec.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/product.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {
namespace {

using config::Fp8Recipe;

// Lower bound of the largest magnitude, from which a scale is computed. torchao has an equal bound.
constexpr double kLeastMagnitude = 1e-12;

double largest(at::ScalarType dtype) { return dtype == at::kFloat8_e4m3fn ? 448.0 : 57344.0; }

// An operand of a product, rounded to FP8: values_RK / scale approximates the operand.
struct Operand {
  at::Tensor values_RK;  // dense
  at::Tensor inverse;    // 1 / scale: [] or [R, 1], float32
};

// Scales an operand and rounds it to FP8. The product sums over the dim K. `shards_rows`: whether
// the ranks of fp8.max_over_ranks hold different rows. `shards_k`: whether these ranks hold
// different columns.
Operand quantized(const at::Tensor& x_RK, at::ScalarType dtype, bool shards_rows, bool shards_k,
                  const Fp8& fp8) {
  const bool by_row = fp8.recipe == Fp8Recipe::kRowwise;
  const double infinity = std::numeric_limits<double>::infinity();  // this norm is the largest |x|
  at::Tensor magnitude = by_row ? at::linalg_vector_norm(x_RK, infinity, {1}, /*keepdim=*/true)
                                : at::linalg_vector_norm(x_RK, infinity);
  magnitude = magnitude.to(at::kDouble);
  const bool shared = shards_k || (shards_rows && !by_row);
  if (shared && fp8.max_over_ranks && !fault::is_planted(fault::Fault::kFp8LocalScale)) {
    fp8.max_over_ranks(magnitude);
  }
  at::Tensor scale =
      magnitude.clamp_min_(kLeastMagnitude).reciprocal_().mul_(largest(dtype)).to(at::kFloat);
  if (by_row) scale = scale.log2_().floor_().exp2_();
  // The scale is a tensor with at least one dim, so that type promotion computes the scaled values
  // in the wider of the two dtypes. The largest scaled value may exceed the largest FP8 number by a
  // rounding error; the cast to FP8 then rounds the value down.
  const at::Tensor scaled = at::mul(x_RK, by_row ? scale : scale.view({1, 1}));
  return {scaled.to(dtype, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous),
          scale.reciprocal()};
}

// Returns a_MK b_NK^T in `dtype`.
at::Tensor multiplied(const Operand& a, const Operand& b, at::ScalarType dtype) {
  if (a.values_RK.is_cuda()) {
    const at::Tensor b_scale = b.inverse.dim() == 2 ? b.inverse.t() : b.inverse;
    return at::_scaled_mm(a.values_RK, b.values_RK.t(), a.inverse, b_scale, std::nullopt,
                          std::nullopt, dtype);
  }
  const AutocastScope plain({a.values_RK.device().type(), std::nullopt});
  const at::ScalarType wide = wide_dtype(dtype);
  at::Tensor c_MN = product(a.values_RK.to(wide), b.values_RK.to(wide).t());
  c_MN.mul_(a.inverse).mul_(b.inverse.dim() == 2 ? b.inverse.t() : b.inverse);
  return c_MN.to(dtype);
}

// Whether a product on x's device may have the inner size `inner`. at::_scaled_mm, which multiplies
// on GPUs, accepts only multiples of kFp8Multiple.
bool fits(const at::Tensor& x, int64_t inner) {
  return !x.is_cuda() || inner % model::kFp8Multiple == 0;
}

at::ScalarType gradient_dtype(const Fp8& fp8) {
  return fp8.recipe == Fp8Recipe::kRowwise ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

}  // namespace

at::Tensor fp8_output(const at::Tensor& x_NI, const at::Tensor& weight_OI, const Fp8& fp8) {
  return multiplied(quantized(x_NI, at::kFloat8_e4m3fn, false, fp8.shards_in, fp8),
                    quantized(weight_OI, at::kFloat8_e4m3fn, fp8.shards_out, fp8.shards_in, fp8),
                    x_NI.scalar_type());
}

at::Tensor fp8_gradient_of_x(const at::Tensor& gradient_NO, const at::Tensor& weight_OI,
                             const Fp8& fp8) {
  return multiplied(
      quantized(gradient_NO, gradient_dtype(fp8), false, fp8.shards_out, fp8),
      quantized(weight_OI.t(), at::kFloat8_e4m3fn, fp8.shards_in, fp8.shards_out, fp8),
      gradient_NO.scalar_type());
}

at::Tensor fp8_gradient_of_weight(const at::Tensor& gradient_NO, const at::Tensor& x_NI,
                                  const Fp8& fp8) {
  if (!fits(x_NI, x_NI.size(0))) return product(gradient_NO.t(), x_NI);
  return multiplied(quantized(gradient_NO.t(), gradient_dtype(fp8), fp8.shards_out, false, fp8),
                    quantized(x_NI.t(), at::kFloat8_e4m3fn, fp8.shards_in, false, fp8),
                    gradient_NO.scalar_type());
}

}  // namespace am::nn::fused
