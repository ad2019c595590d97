// Matrix products in FP8, numbers of 8 bits, by two recipes of torchao.
//
//   const Fp8 fp8 = {.recipe = config::Fp8Recipe::kTensorwise};
//   const at::Tensor y = linear(x, weight, bias, {.fp8 = &fp8});
//
// Before each product, its operands are multiplied by a scale and rounded to FP8. The scale maps
// the largest magnitude to the largest FP8 number (rowwise: to at most the largest FP8 number).
//
//   tensorwise   one scale per tensor; x and the weight are e4m3 (4 bits of exponent, 3 of
//                mantissa), the gradient of the output is e5m2
//   rowwise      one scale per row of the left operand and per column of the right operand, each a
//                power of two; all operands are e4m3
//
// GPUs multiply with at::_scaled_mm. The host multiplies the FP8 numbers in float32 (float64 for
// float64), so that layouts can be tested without a GPU. The results differ from those of a GPU
// only by the order of summation. Legend: N rows of x, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "am/config/strategy_config.h"

namespace am::nn::fused {

// Precision of the products of one linear layer.
struct Fp8 {
  config::Fp8Recipe recipe = config::Fp8Recipe::kTensorwise;
  // `shards_out` and `shards_in`: whether tensor parallelism shards the output dim or the input dim
  // of the weight. `max_over_ranks` replaces each number by its maximum over the ranks with the
  // shards, in place. Scales that are computed over a sharded dim use this function, so that they
  // do not depend on the layout.
  bool shards_out = false, shards_in = false;
  std::function<void(const at::Tensor& numbers)> max_over_ranks = {};
};

// Returns x weight^T, in x's dtype.
at::Tensor fp8_output(const at::Tensor& x_NI, const at::Tensor& weight_OI, const Fp8& fp8);
// Return the gradients of x and of the weight, in the dtype of `gradient_NO`, the gradient of
// fp8_output's result. On a GPU, at::_scaled_mm requires that N is a multiple of
// model::kFp8Multiple; for any other N, the weight's gradient is computed without FP8.
at::Tensor fp8_gradient_of_x(const at::Tensor& gradient_NO, const at::Tensor& weight_OI,
                             const Fp8& fp8);
at::Tensor fp8_gradient_of_weight(const at::Tensor& gradient_NO, const at::Tensor& x_NI,
                                  const Fp8& fp8);

}  // namespace am::nn::fused
