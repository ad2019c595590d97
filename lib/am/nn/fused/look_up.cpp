#include "am/nn/fused/look_up.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/weight_pass.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LookUp : torch::autograd::Function<LookUp> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight_VD,
                            const at::Tensor& ids, int64_t padding) {
    context->save_for_backward({weight_VD, ids});
    context->saved_data["padding"] = padding;
    keep_weight_pass(*context);
    return at::embedding(weight_VD, ids, padding);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    variable_list of(3);
    if (!context->needs_input_grad(0)) return of;
    const auto make = [gradient = gradients[0], ids = saved[1], rows = saved[0].size(0),
                       padding = context->saved_data["padding"].toInt()] {
      return at::embedding_dense_backward(gradient, ids, rows, padding,
                                          /*scale_grad_by_freq=*/false);
    };
    if (WeightPass* pass = postponing_pass(*context)) {
      pass->owe(saved[0], make);
    } else {
      of[0] = make();
    }
    return of;
  }
};

}  // namespace

at::Tensor look_up(const at::Tensor& weight_VD, const at::Tensor& ids, int64_t padding) {
  if (!current_weight_pass()) return at::embedding(weight_VD, ids, padding);
  return LookUp::apply(weight_VD, ids, padding);
}

}  // namespace am::nn::fused
