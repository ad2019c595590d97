#include "am/nn/fused/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename Lanes>
AM_INLINE Lanes sigmoid(const Lanes& x) {
  return 1 / (1 + exponential(-x));
}

template <typename Scalar>
struct Activate {
  AM_INLINE static void run(Scalar* y, const Scalar* gate, const Scalar* up, int64_t count) {
    for_lanes<Scalar>(count, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar> g = load(gate + i, part);
      store(y + i, part, rounded<Scalar>(g * sigmoid(g)) * load(up + i, part));
    });
  }
};

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
template <typename Scalar>
struct ActivateBackward {
  AM_INLINE static void run(Scalar* of_gate, Scalar* of_up, const Scalar* gradient,
                            const Scalar* gate, const Scalar* up, int64_t count) {
    for_lanes<Scalar>(count, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar> of_y = load(gradient + i, part);
      const Vector<Scalar> g = load(gate + i, part);
      const Vector<Scalar> s = sigmoid(g);
      const Vector<Scalar> of_silu = rounded<Scalar>(of_y * load(up + i, part));
      store(of_up + i, part, of_y * rounded<Scalar>(g * s));
      store(of_gate + i, part, of_silu * s * (1 + g * (1 - s)));
    });
  }
};

void run_forward(at::Tensor& y, const at::Tensor& gate, const at::Tensor& up) {
  visit_dtype(y.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(y.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<Activate<Scalar>>(y.mutable_data_ptr<Scalar>() + begin,
                                   gate.const_data_ptr<Scalar>() + begin,
                                   up.const_data_ptr<Scalar>() + begin, end - begin);
    });
  });
}

void run_backward(at::Tensor& of_gate, at::Tensor& of_up, const at::Tensor& gradient,
                  const at::Tensor& gate, const at::Tensor& up) {
  visit_dtype(gate.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<ActivateBackward<Scalar>>(
          of_gate.mutable_data_ptr<Scalar>() + begin, of_up.mutable_data_ptr<Scalar>() + begin,
          gradient.const_data_ptr<Scalar>() + begin, gate.const_data_ptr<Scalar>() + begin,
          up.const_data_ptr<Scalar>() + begin, end - begin);
    });
  });
}

at::Tensor forward_of(const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernels(gate)) return at::silu(gate).mul_(up);
  at::Tensor y = at::empty_like(gate);
  if (!y.is_meta()) run_forward(y, gate, up);
  return y;
}

struct Gradients {
  at::Tensor of_gate, of_up;
};
Gradients backward_of(const at::Tensor& gradient, const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernels(gate)) {
    return {at::silu_backward(gradient * up, gate), gradient * at::silu(gate)};
  }
  Gradients of = {at::empty_like(gate), at::empty_like(up)};
  if (!gate.is_meta()) run_backward(of.of_gate, of.of_up, gradient.contiguous(), gate, up);
  return of;
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    const at::Tensor given = gate.contiguous(), given_up = up.contiguous();
    context->save_for_backward({given, given_up});
    return forward_of(given, given_up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    Gradients of = backward_of(gradients[0], saved[0], saved[1]);
    return {of.of_gate, of.of_up};
  }
};

struct SwiGluLinear : torch::autograd::Function<SwiGluLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    const at::Tensor given = gate.contiguous(), given_up = up.contiguous();
    context->save_for_backward({given, given_up, weight});
    context->saved_data["biased"] = bias.has_value();
    return fused::linear(forward_of(given, given_up), weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const LinearNeeds needs = {context->needs_input_grad(0) || context->needs_input_grad(1),
                               context->needs_input_grad(2),
                               context->saved_data["biased"].toBool()};
    // The product's input is gone before the next gradients are there.
    LinearGradients of = fused::linear_gradients(
        gradients[0], needs.weight ? forward_of(saved[0], saved[1]) : at::Tensor(), saved[2],
        needs);
    Gradients of_inputs;
    if (needs.x) of_inputs = backward_of(of.of_x, saved[0], saved[1]);
    return {of_inputs.of_gate, of_inputs.of_up, of.of_weight, of.of_bias};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return SwiGlu::apply(gate, up); }

at::Tensor swiglu_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias) {
  // Under autocast gate and up are narrow already, and so the product is.
  const at::ScalarType dtype = gate.scalar_type();
  std::optional<at::Tensor> cast_bias;
  if (bias) cast_bias = bias->to(dtype);
  return SwiGluLinear::apply(gate, up, weight.to(dtype), cast_bias);
}

}  // namespace am::nn::fused
