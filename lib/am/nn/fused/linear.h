// A linear layer whose three products use fused::product, and its gradients for callers that
// already have the layer's output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "am/nn/weight_pass.h"

namespace am::nn::fused {

// x_..I, weight_OI, bias_O -> ..O. Computes and saves what at::linear does, autocast included.
// `in_out`: the weight is stored [I, O], as in GPT-2.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, bool in_out = false);

// Slices of a fused matrix's output dim O, one output each, e.g. queries, keys and values. The
// weight and x still have one gradient each.
struct Slices {
  std::vector<int64_t> lengths = {};  // must add up to O
  bool in_out = false;
  // One tensor per length: an output that is known and need not be computed, or undefined. May be
  // empty.
  std::vector<at::Tensor> known = {};
};
std::vector<at::Tensor> sliced_linear(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);

struct LinearGradients {
  at::Tensor of_x, of_weight, of_bias;  // undefined if not requested
};
struct LinearNeeds {
  bool x = false, weight = false, bias = false;
};
// Computes the requested gradients from that of linear's output, ..O; no graph. Bitwise equal to
// linear's own backward. `x` may be undefined if the weight's gradient is not requested.
LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs,
                                 bool in_out = false);

// Building blocks of sliced_linear. Computed outputs are separate tensors; no graph.
std::vector<at::Tensor> slice_outputs(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);
// Computes the requested gradients from those of the outputs; `gradients` are undefined for outputs
// that were not used.
LinearGradients slice_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& x,
                                const at::Tensor& weight, const Slices& slices,
                                const LinearNeeds& needs);
// Returns a function that computes the weight's gradient later.
std::function<at::Tensor()> slice_weight_product(const std::vector<at::Tensor>& gradients,
                                                 const at::Tensor& x, const at::Tensor& weight,
                                                 const Slices& slices);
// Returns the gradients that a node's backward must compute now. If the node's weight pass
// postpones (weight_pass.h), records in the pass that the function returned by `how` will compute
// the gradient of `weight`.
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
// Calls visit(index, offset, length) for each slice of a fused matrix's output dim.
template <typename Visit>
void for_slices(const std::vector<int64_t>& lengths, const Visit& visit) {
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    visit(i, first, lengths[i]);
    first += lengths[i];
  }
}

}  // namespace am::nn::fused
