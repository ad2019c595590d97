#include "am/nn/fused/shared_rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/fused/tensors.h"

namespace am::nn::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns the factor of the normalised elements, in `dtype`: weight, or 1 + weight.
at::Tensor factor(const at::Tensor& weight, model::NormKind kind, at::ScalarType dtype) {
  const at::Tensor wide_weight = weight.to(dtype);
  return kind == model::NormKind::kRmsPlusOne ? wide_weight + 1.0 : wide_weight;
}

struct Shared : torch::autograd::Function<Shared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const SharedNorm& norm) {
    const at::ScalarType dtype = wide_dtype(x.scalar_type());
    const at::Tensor x_wide = x.to(dtype);
    const at::Tensor squares = x_wide.square().sum(-1, /*keepdim=*/true);
    (*norm.sum)(squares);
    const at::Tensor scale = squares.div_(static_cast<double>(norm.width)).add_(norm.eps).rsqrt_();
    context->save_for_backward({x, weight, scale});
    context->saved_data["kind"] = static_cast<int64_t>(norm.kind);
    context->saved_data["width"] = norm.width;
    context->saved_data["sum"] = reinterpret_cast<int64_t>(norm.sum);
    const at::Tensor n = x_wide * scale;
    if (norm.kind == model::NormKind::kRms) {
      return (weight * n.to(x.scalar_type())).to(x.scalar_type());
    }
    return (factor(weight, norm.kind, dtype) * n).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const auto kind = static_cast<model::NormKind>(context->saved_data["kind"].toInt());
    const auto width = static_cast<double>(context->saved_data["width"].toInt());
    const auto* sum = reinterpret_cast<const std::function<void(const at::Tensor&)>*>(
        context->saved_data["sum"].toInt());
    const at::ScalarType dtype = wide_dtype(x.scalar_type());
    const at::Tensor n = x.to(dtype) * scale;
    const at::Tensor of_y = gradients[0].to(dtype);
    at::Tensor of_weight;
    if (context->needs_input_grad(1)) {
      of_weight = (of_y * n).reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
    }
    if (!context->needs_input_grad(0)) return {at::Tensor(), of_weight, at::Tensor()};
    const at::Tensor of_n = of_y * factor(weight, kind, dtype);
    const at::Tensor products = (of_n * n).sum(-1, /*keepdim=*/true);
    (*sum)(products);
    const at::Tensor of_x = (of_n - n * (products / width)) * scale;
    return {of_x.to(x.scalar_type()), of_weight, at::Tensor()};
  }
};

}  // namespace

at::Tensor shared_rms_norm(const at::Tensor& x, const at::Tensor& weight, const SharedNorm& norm) {
  return Shared::apply(x, weight, norm);
}

}  // namespace am::nn::fused
