#include "am/nn/fused/softcap.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace am::nn::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SoftCap : torch::autograd::Function<SoftCap> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double cap) {
    const at::Tensor bent = x.detach().div_(cap).tanh_();
    context->save_for_backward({bent});
    return bent * cap;
  }

  // Returns (1 - tanh(x / cap)^2) * gradient, and overwrites the saved tensor with it.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor bent = context->get_saved_variables()[0];
    return {bent.detach().square_().neg_().add_(1).mul_(gradients[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor soft_cap(const at::Tensor& x, double cap) { return SoftCap::apply(x, cap); }

}  // namespace am::nn::fused
