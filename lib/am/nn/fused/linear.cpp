#include "am/nn/fused/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/autocast.h"
#include "am/nn/fused/product.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

std::vector<int64_t> with_last(at::IntArrayRef shape, int64_t last) {
  std::vector<int64_t> changed = shape.vec();
  changed.back() = last;
  return changed;
}

struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    // The weight's gradient alone reads x.
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    context->saved_data["biased"] = bias.has_value();  // without one there is no third input to ask
    at::Tensor y = product(rows_of(x), weight.t());
    if (bias) y.add_(*bias);
    return y.view(with_last(x.sizes(), weight.size(0)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const LinearNeeds needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                               context->saved_data["biased"].toBool()};
    const LinearGradients of = linear_gradients(gradients[0], saved[0], saved[1], needs);
    return {of.of_x, of.of_weight, of.of_bias};
  }
};

bool is_ours(const at::Tensor& x, const at::Tensor& weight) {
  return (x.device().is_cpu() || x.is_meta()) && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && x.dim() > 1 && x.numel() > 0 && weight.numel() > 0 &&
         multiplies_with_onednn() && !current_autocast(c10::DeviceType::CPU).dtype;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  if (!is_ours(x, weight)) return at::linear(x, weight, bias);
  return Product::apply(x, weight, bias);
}

LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs) {
  const at::Tensor gradient_NO = rows_of(gradient);
  LinearGradients of;
  if (needs.x) {
    of.of_x = product(gradient_NO, weight).view(with_last(gradient.sizes(), weight.size(1)));
  }
  if (needs.weight) of.of_weight = product(gradient_NO.t(), rows_of(x));
  if (needs.bias) of.of_bias = gradient_NO.sum(0);
  return of;
}

}  // namespace am::nn::fused
