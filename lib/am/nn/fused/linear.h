// A linear layer that uses fused::product where that is faster than at::linear: in forward, and for
// the gradients of x and of the weight. Further functions compute only the layer's gradients, for
// callers that already have the output. Legend: N rows of x, I inputs, O outputs.
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
  const Fp8* fp8 = nullptr;  // null: products in x's dtype; if set, must outlive backward
};

// Returns x_..I times the transpose of weight_OI, plus bias_O: [.., O]. Computes and saves what
// at::linear computes and saves, also under autocast. In FP8, only the products differ.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const WeightForm& form = {});

// Slices of a fused matrix's output dim O. Each slice computes an output of its own, for example
// queries, keys or values. The weight and x still have one gradient each.
struct Slices {
  std::vector<int64_t> lengths = {};  // must add up to O
  WeightForm form = {};
  // Empty, or one tensor per output: the output's value if it is known, or an undefined tensor if
  // it is to be computed.
  std::vector<at::Tensor> known = {};
};
// Returns the output of each slice, [.., length].
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
// requested, and `weight` if the gradient of x is not.
LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs,
                                 const WeightForm& form = {});

// Steps of sliced_linear, for autograd nodes. slice_outputs() returns the output of each slice. The
// outputs that it computes do not share memory.
std::vector<at::Tensor> slice_outputs(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices);
// Computes the requested gradients from the gradients of the outputs. `gradients` has an undefined
// tensor for each output that the rest of the graph does not use.
LinearGradients slice_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& x,
                                const at::Tensor& weight, const Slices& slices,
                                const LinearNeeds& needs);
// keep() stores a WeightForm in a node's saved data; kept_form() returns it.
void keep(torch::autograd::AutogradContext& context, const WeightForm& form);
WeightForm kept_form(torch::autograd::AutogradContext& context);
// Returns a function that computes the gradient of the whole weight when it is called.
std::function<at::Tensor()> slice_weight_product(const std::vector<at::Tensor>& gradients,
                                                 const at::Tensor& x, const at::Tensor& weight,
                                                 const Slices& slices);
// Returns the gradients, out of `needs`, that a node's backward must compute now. If a weight pass
// postpones the weight's gradient (weight_pass.h), stores the result of how() in the pass: a
// function that computes the gradient of `weight` later.
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
