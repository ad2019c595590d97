// Computes an operator's value and its inputs' gradients, and compares tensors.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "am/model/spec.h"

namespace am::test {

using Tensors = std::vector<at::Tensor>;
using Operator = std::function<at::Tensor(const Tensors&)>;

// Checks that `a` and `b` differ by at most `allowed` times the largest magnitude in `b`, or times
// 0.01 if that is larger. The bound is relative to the whole tensor, because the terms of a sum may
// cancel, whereas its rounding error grows with the terms.
inline void check_close(const at::Tensor& a, const at::Tensor& b, double allowed) {
  REQUIRE(a.sizes() == b.sizes());
  REQUIRE(a.scalar_type() == b.scalar_type());
  if (a.numel() == 0) return;
  const at::Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max();
  const double scale = std::max(1e-2, b.to(at::kDouble).abs().max().item<double>());
  CHECK(difference.item<double>() <= allowed * scale);
}

// Returns the activation of `x`, computed by ATen's operators.
inline at::Tensor by_aten(model::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case model::Activation::kSilu:
      return at::silu(x);
    case model::Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case model::Activation::kRelu:
      return at::relu(x);
    case model::Activation::kRelu2:
      return at::relu(x).square();
    default:
      return at::gelu(x);
  }
}

struct Outcome {
  at::Tensor value;
  Tensors gradients;  // gradients of the floating-point inputs
};

// Runs the operator forward and backward. `entering` is the gradient of the operator's value.
inline Outcome run(const Operator& operation, const Tensors& inputs, const at::Tensor& entering) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.is_floating_point() ? input.detach().requires_grad_(true) : input);
  }
  Outcome outcome;
  outcome.value = operation(leaves);
  torch::autograd::backward({outcome.value}, {entering.expand_as(outcome.value)});
  for (const at::Tensor& leaf : leaves) {
    if (leaf.is_floating_point()) outcome.gradients.push_back(leaf.grad());
  }
  return outcome;
}

// Returns the difference that compare() allows: a few rounding errors of the dtype, because an
// implementation of several ATen operators rounds after each of them.
inline double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-12;
    case at::kFloat:
      return 1e-6;
    case at::kHalf:
      return 4e-3;
    default:
      return 3e-2;
  }
}

// Compares the values and input gradients of two implementations of an operator: ours, and one that
// consists of ATen operators. `shape_of_output` is the shape of the operator's value.
inline void compare(const Operator& ours, const Operator& composite, const Tensors& inputs,
                    at::IntArrayRef shape_of_output) {
  const at::Tensor entering = at::randn(shape_of_output, inputs[0].options());
  const Outcome a = run(ours, inputs, entering);
  const Outcome b = run(composite, inputs, entering);
  const double allowed = tolerance(inputs[0].scalar_type());
  check_close(a.value, b.value, allowed);
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    INFO("gradient of input " << i);
    REQUIRE(a.gradients[i].defined());
    check_close(a.gradients[i], b.gradients[i], allowed);
  }
}

// For kHalf, there are no fused kernels, and our implementation calls ATen's operators.
inline const std::vector<at::ScalarType> kDtypes = {at::kFloat, at::kDouble, at::kBFloat16,
                                                    at::kHalf};

}  // namespace am::test
