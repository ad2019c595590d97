// A linear layer whose three products go through fused::product, and its gradients for who knows
// the layer's output already.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "am/nn/weight_pass.h"

namespace am::nn::fused {

// x_..I, weight_OI, bias_O -> ..O. What at::linear does and saves, autocast included. `in_out`: the
// weight is stored [I, O], as GPT-2's are.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, bool in_out = false);

// A matrix of several outputs, one for each slice of O: queries, keys and values in one. The weight
// has one gradient, and x one.
struct Slices {
  std::vector<int64_t> lengths = {};  // that add up to O
  bool in_out = false;
  // Parallel to the lengths: an output that is known and not computed; undefined: it is not.
  std::vector<at::Tensor> known = {};
};
std::vector<at::Tensor> sliced_linear(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);

struct LinearGradients {
  at::Tensor of_x, of_weight, of_bias;  // undefined where nobody asked
};
struct LinearNeeds {
  bool x = false, weight = false, bias = false;
};
// From the gradient ..O of linear's output; no graph. The same bits as linear's own backward. `x`
// may be undefined where the weight's is not asked for.
LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs,
                                 bool in_out = false);

// What sliced_linear is made of. Outputs that are not known are tensors of their own; no graph.
std::vector<at::Tensor> slice_outputs(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);
// From the outputs' gradients, which are undefined where nobody read one.
LinearGradients slice_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& x,
                                const at::Tensor& weight, const Slices& slices,
                                const LinearNeeds& needs);
// How to make the weight's part of them later.
std::function<at::Tensor()> slice_weight_product(const std::vector<at::Tensor>& gradients,
                                                 const at::Tensor& x, const at::Tensor& weight,
                                                 const Slices& slices);
// In a node's backward: what it needs at once. Where the node's pass postpones, the gradient of
// `weight` is owed, and is what the function gives that `how` gives.
template <typename How>
LinearNeeds needs_now(torch::autograd::AutogradContext& context, LinearNeeds needs,
                      const at::Tensor& weight, const How& how) {
  if (!needs.weight) return needs;
  if (WeightPass* pass = postponing_pass(context)) {
    pass->owe(weight, how());
    needs.weight = false;
  }
  return needs;
}
// x_..I -> NI
inline at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }
// Each slice of a matrix [O, I], or [I, O], or of a bias, with the number that it has.
template <typename Visit>
void for_slices(const std::vector<int64_t>& lengths, const Visit& visit) {
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    visit(i, first, lengths[i]);
    first += lengths[i];
  }
}

}  // namespace am::nn::fused
