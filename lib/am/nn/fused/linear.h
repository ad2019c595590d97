// A linear layer that uses fused::product where that is faster than at::linear: in forward, and for
// the gradients of x and of the weight. Other functions compute only the layer's gradients, for
// callers that already have its output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "am/nn/fused/fp8.h"
#include "am/nn/weight_pass.h"

namespace am::nn::fused {

// Storage of a weight, and precision of its products.
struct WeightForm {
  bool in_out = false;       // stored as [I, O], as in GPT-2, instead of [O, I]
  const Fp8* fp8 = nullptr;  // null: products in the dtype of x; otherwise must outlive backward
};

// Returns x_..I times weight_OI plus bias_O, [.., O]. Computes and saves what at::linear does,
// autocast included; in FP8, only the products differ.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const WeightForm& form = {});

// Slices of a fused matrix's output dim O, each of which is an output by itself, for example
// queries, keys and values. The weight and x still have one gradient each.
struct Slices {
  std::vector<int64_t> lengths = {};  // must add up to O
  WeightForm form = {};
  // Empty, or one tensor per output: the output's value if it is known, or an undefined tensor if
  // it is to be computed.
  std::vector<at::Tensor> known = {};
};
std::vector<at::Tensor> sliced_linear(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);

struct LinearGradients {
  at::Tensor of_x, of_weight, of_bias;  // undefined where not requested
};
struct LinearNeeds {
  bool x = false, weight = false, bias = false;
};
// Computes the requested gradients from the gradient of linear's output. Builds no autograd graph.
// Bitwise equal to linear's own backward. `x` may be undefined if the weight's gradient is not
// requested.
LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs,
                                 const WeightForm& form = {});

// Steps of sliced_linear, without an autograd graph. Computed outputs are separate tensors.
std::vector<at::Tensor> slice_outputs(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);
// Computes the requested gradients from the gradients of the outputs. `gradients` has an undefined
// tensor for each output that was not used.
LinearGradients slice_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& x,
                                const at::Tensor& weight, const Slices& slices,
                                const LinearNeeds& needs);
// keep() stores a WeightForm in a node's saved data; kept_form() returns it.
void keep(torch::autograd::AutogradContext& context, const WeightForm& form);
WeightForm kept_form(torch::autograd::AutogradContext& context);
// Returns a function that computes the weight's gradient when it is called.
std::function<at::Tensor()> slice_weight_product(const std::vector<at::Tensor>& gradients,
                                                 const at::Tensor& x, const at::Tensor& weight,
                                                 const Slices& slices);
// Returns the gradients that a node's backward must compute now. If the node's weight pass
// postpones the weights' gradients (weight_pass.h), calls how() and stores its result in the pass:
// a function that computes the gradient of `weight` later.
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
// Returns x_..I as rows [N, I].
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
