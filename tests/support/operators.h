// An operator's value and its inputs' gradients, and a comparison of two of them.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

namespace am::test {

using Tensors = std::vector<at::Tensor>;
using Operator = std::function<at::Tensor(const Tensors&)>;

// Compares relative to the largest value of `b`, but at least 0.01, since the rounding errors of a
// sum scale with its terms, which may cancel.
inline void check_close(const at::Tensor& a, const at::Tensor& b, double allowed) {
  REQUIRE(a.sizes() == b.sizes());
  REQUIRE(a.scalar_type() == b.scalar_type());
  if (a.numel() == 0) return;
  const at::Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max();
  const double scale = std::max(1e-2, b.to(at::kDouble).abs().max().item<double>());
  CHECK(difference.item<double>() <= allowed * scale);
}

struct Outcome {
  at::Tensor value;
  Tensors gradients;  // of the floating-point inputs
};

// `entering`: gradient of the operator's value.
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

}  // namespace am::test
