#include "am/nn/fused/layer_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Allocates the tensors that ATen's native_layer_norm allocates, without computing values: the
// output, and each row's mean and inverse standard deviation. The mean and the deviation are in the
// weight's dtype and are kept until backward.
struct WithoutContents : torch::autograd::Function<WithoutContents> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& shift) {
    const auto of_rows = [&] {
      return at::empty({x.numel() / x.size(-1)}, x.options().dtype(weight.scalar_type()));
    };
    context->save_for_backward({x, weight, shift.value_or(at::Tensor()), of_rows(), of_rows()});
    return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
  }

  static variable_list backward(AutogradContext* context, const variable_list& /*gradients*/) {
    const variable_list saved = context->get_saved_variables();
    variable_list of;
    for (size_t i = 0; i < 3; ++i) {
      const bool needed = saved[i].defined() && context->needs_input_grad(i);
      of.push_back(needed ? at::empty_like(saved[i]) : at::Tensor());
    }
    return of;
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& shift, double eps) {
  if (x.is_meta()) return WithoutContents::apply(x, weight, shift);
  return at::layer_norm(x, {x.size(-1)}, weight, shift, eps);
}

}  // namespace am::nn::fused
