#include "am/nn/experts/weighed_down.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "am/nn/fused/gated.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/tensors.h"
#include "am/nn/weight_pass.h"

namespace am::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct WeighedDown : torch::autograd::Function<WeighedDown> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_RF,
                            const at::Tensor& up_RF, const at::Tensor& down_DF,
                            const std::optional<at::Tensor>& weight_R, model::Activation activation,
                            bool unread) {
    context->save_for_backward({gate_RF, up_RF, down_DF, weight_R.value_or(at::Tensor())});
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    keep_weight_pass(*context);
    if (unread) {
      return at::zeros({}, gate_RF.options()).expand({gate_RF.size(0), down_DF.size(0)});
    }
    at::Tensor y_RD =
        fused::linear(fused::gated(gate_RF, up_RF, activation), down_DF, std::nullopt);
    if (weight_R) y_RD.mul_(weight_R->unsqueeze(1));
    return y_RD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate_RF = saved[0], &up_RF = saved[1], &down_DF = saved[2];
    const at::Tensor weight_R1 = saved[3].defined() ? saved[3].unsqueeze(1) : at::Tensor();
    const auto activation =
        static_cast<model::Activation>(context->saved_data.at("activation").toInt());
    variable_list of(6);
    at::Tensor wide_RF = fused::gated(gate_RF, up_RF, activation);
    fused::LinearGradients of_down;
    const bool any_row = context->needs_input_grad(0) || context->needs_input_grad(1) ||
                         (weight_R1.defined() && context->needs_input_grad(3));
    if (any_row) {
      of_down = fused::linear_gradients(gradients[0], {}, down_DF, {.x = true});
      if (weight_R1.defined()) {
        of[3] = at::mul(of_down.of_x, wide_RF).sum(-1, false, weight_R1.scalar_type());
        of_down.of_x.mul_(weight_R1);
      }
    }
    if (context->needs_input_grad(2)) {
      if (weight_R1.defined()) wide_RF.mul_(weight_R1);
      const auto make = [gradient = gradients[0], wide_RF] {
        return fused::linear_gradients(gradient, wide_RF, {}, {.weight = true}).of_weight;
      };
      if (WeightPass* pass = postponing_pass(*context)) {
        pass->owe(down_DF, make);
      } else {
        of[2] = make();
      }
    }
    wide_RF.reset();
    if (any_row) {
      auto of_factors = fused::gated_gradients(of_down.of_x, gate_RF, up_RF, activation);
      of[0] = of_factors.of_gate;
      of[1] = of_factors.of_up;
    }
    return of;
  }
};

}  // namespace

at::Tensor weighed_down(const at::Tensor& gate_RF, const at::Tensor& up_RF,
                        const at::Tensor& weight_R, const at::Tensor& down_DF,
                        model::Activation activation, bool unread) {
  std::optional<at::Tensor> weight;
  if (weight_R.defined()) weight = weight_R;
  return WeighedDown::apply(gate_RF.contiguous(), up_RF.contiguous(),
                            down_DF.to(gate_RF.scalar_type()), weight, activation, unread);
}

}  // namespace am::nn
