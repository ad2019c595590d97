#include "am/nn/fused/gated.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "am/base/error.h"
#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename Lanes>
AM_INLINE Lanes sigmoid(const Lanes& x) {
  return 1 / (1 + exponential(Lanes(-x)));
}

AM_INLINE float error_function(float x) { return std::erf(x); }
AM_INLINE double error_function(double x) { return std::erf(x); }

// Each activation has two functions. value(g) returns act(g). backward(of_value, g) returns the
// gradient of g, computed from of_value, the gradient of act(g).
template <typename Scalar>
struct Silu {
  template <typename Lanes>
  AM_INLINE static Lanes value(const Lanes& g) {
    return g * sigmoid(g);
  }
  // The derivative is s (1 + g (1 - s)) with s = sigmoid(g).
  template <typename Lanes>
  AM_INLINE static Lanes backward(const Lanes& of_value, const Lanes& g) {
    const Lanes s = sigmoid(g);
    return of_value * s * (1 + g * (1 - s));
  }
};

// The value is g (1 + tanh(u)) / 2 = g sigmoid(2 u), with u = sqrt(2 / pi) (g + 0.044715 g^3).
template <typename Scalar>
struct GeluTanh {
  static constexpr auto kTwice = static_cast<Wide<Scalar>>(2.0 * 0.79788456080286536);
  static constexpr auto kCube = static_cast<Wide<Scalar>>(0.044715);

  template <typename Lanes>
  AM_INLINE static Lanes curve(const Lanes& g) {
    return sigmoid(static_cast<Lanes>(kTwice * (g + kCube * g * g * g)));
  }
  template <typename Lanes>
  AM_INLINE static Lanes value(const Lanes& g) {
    return g * curve(g);
  }
  template <typename Lanes>
  AM_INLINE static Lanes backward(const Lanes& of_value, const Lanes& g) {
    const Lanes s = curve(g);
    return of_value * (s + g * s * (1 - s) * kTwice * (1 + 3 * kCube * g * g));
  }
};

// The value is g (1 + erf(g / sqrt(2))) / 2.
template <typename Scalar>
struct GeluErf {
  static constexpr auto kInverseRoot = static_cast<Wide<Scalar>>(0.70710678118654752);
  static constexpr auto kDensity = static_cast<Wide<Scalar>>(0.39894228040143268);  // 1/sqrt(2 pi)

  template <typename Lanes>
  AM_INLINE static Lanes share(const Lanes& g) {
    Lanes share = {};
    for (int i = 0; i < kCountOf<Lanes>; ++i) share[i] = error_function(g[i] * kInverseRoot);
    return (1 + share) / 2;
  }
  template <typename Lanes>
  AM_INLINE static Lanes value(const Lanes& g) {
    return g * share(g);
  }
  template <typename Lanes>
  AM_INLINE static Lanes backward(const Lanes& of_value, const Lanes& g) {
    return of_value * (share(g) + g * kDensity * exponential(static_cast<Lanes>(-g * g / 2)));
  }
};

// As in PyTorch, a NaN is not replaced by 0.
template <typename Scalar>
struct Relu {
  template <typename Lanes>
  AM_INLINE static Lanes value(const Lanes& g) {
    return g < 0 ? Lanes{} : g;
  }
  template <typename Lanes>
  AM_INLINE static Lanes backward(const Lanes& of_value, const Lanes& g) {
    return g <= 0 ? Lanes{} : of_value;
  }
};

// The square of ReLU.
template <typename Scalar>
struct Relu2 {
  template <typename Lanes>
  AM_INLINE static Lanes value(const Lanes& g) {
    return g * Relu<Scalar>::value(g);
  }
  template <typename Lanes>
  AM_INLINE static Lanes backward(const Lanes& of_value, const Lanes& g) {
    return of_value * 2 * Relu<Scalar>::value(g);
  }
};

template <template <typename> typename Act, typename Scalar>
struct Activate {
  template <int kBytes>
  AM_INLINE static void run(Scalar* y, const Scalar* gate, const Scalar* up, int64_t count) {
    for_lanes<Scalar, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar, kBytes> active = Act<Scalar>::value(load(gate + i, part));
      store(y + i, part, rounded<Scalar>(active) * load(up + i, part));
    });
  }
};

template <template <typename> typename Act, typename Scalar>
struct ActivateBackward {
  template <int kBytes>
  AM_INLINE static void run(Scalar* of_gate, Scalar* of_up, const Scalar* gradient,
                            const Scalar* gate, const Scalar* up, int64_t count) {
    for_lanes<Scalar, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar, kBytes> of_y = load(gradient + i, part);
      const Vector<Scalar, kBytes> g = load(gate + i, part);
      const Vector<Scalar, kBytes> of_active = of_y * load(up + i, part);
      store(of_up + i, part, of_y * rounded<Scalar>(Act<Scalar>::value(g)));
      store(of_gate + i, part, Act<Scalar>::backward(rounded<Scalar>(of_active), g));
    });
  }
};

// The host kernels of gated() with one activation, and ATen's operators for the activation alone.
struct Operators {
  model::Activation activation;
  void (*forward)(at::Tensor& y, const at::Tensor& gate, const at::Tensor& up);
  void (*backward)(at::Tensor& of_gate, at::Tensor& of_up, const at::Tensor& gradient,
                   const at::Tensor& gate, const at::Tensor& up);
  at::Tensor (*aten)(const at::Tensor& gate);
  at::Tensor (*aten_backward)(const at::Tensor& of_value, const at::Tensor& gate);
};

template <template <typename> typename Act>
void run_forward(at::Tensor& y, const at::Tensor& gate, const at::Tensor& up) {
  visit_dtype(y.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(y.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<Activate<Act, Scalar>>(y.mutable_data_ptr<Scalar>() + begin,
                                        gate.const_data_ptr<Scalar>() + begin,
                                        up.const_data_ptr<Scalar>() + begin, end - begin);
    });
  });
}

template <template <typename> typename Act>
void run_backward(at::Tensor& of_gate, at::Tensor& of_up, const at::Tensor& gradient,
                  const at::Tensor& gate, const at::Tensor& up) {
  visit_dtype(gate.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      run_kernel<ActivateBackward<Act, Scalar>>(
          of_gate.mutable_data_ptr<Scalar>() + begin, of_up.mutable_data_ptr<Scalar>() + begin,
          gradient.const_data_ptr<Scalar>() + begin, gate.const_data_ptr<Scalar>() + begin,
          up.const_data_ptr<Scalar>() + begin, end - begin);
    });
  });
}

// Returns ReLU of g. at::relu has no implementation for meta tensors.
at::Tensor positive_part(const at::Tensor& g) { return at::clamp_min(g, 0); }

const Operators& operators_of(model::Activation activation) {
  static const Operators silu = {
      model::Activation::kSilu, run_forward<Silu>, run_backward<Silu>,
      [](const at::Tensor& g) { return at::silu(g); },
      [](const at::Tensor& of, const at::Tensor& g) { return at::silu_backward(of, g); }};
  static const Operators gelu_tanh = {
      model::Activation::kGeluTanh, run_forward<GeluTanh>, run_backward<GeluTanh>,
      [](const at::Tensor& g) { return at::gelu(g, "tanh"); },
      [](const at::Tensor& of, const at::Tensor& g) { return at::gelu_backward(of, g, "tanh"); }};
  static const Operators gelu_erf = {
      model::Activation::kGeluErf, run_forward<GeluErf>, run_backward<GeluErf>,
      [](const at::Tensor& g) { return at::gelu(g); },
      [](const at::Tensor& of, const at::Tensor& g) { return at::gelu_backward(of, g); }};
  static const Operators relu = {
      model::Activation::kRelu, run_forward<Relu>, run_backward<Relu>, positive_part,
      [](const at::Tensor& of, const at::Tensor& g) { return at::threshold_backward(of, g, 0); }};
  static const Operators relu2 = {
      model::Activation::kRelu2, run_forward<Relu2>, run_backward<Relu2>,
      [](const at::Tensor& g) { return positive_part(g).square(); },
      [](const at::Tensor& of, const at::Tensor& g) { return positive_part(g).mul_(2).mul_(of); }};
  switch (activation) {
    case model::Activation::kSilu:
      return silu;
    case model::Activation::kGeluTanh:
      return gelu_tanh;
    case model::Activation::kGeluErf:
      return gelu_erf;
    case model::Activation::kRelu:
      return relu;
    case model::Activation::kRelu2:
      return relu2;
    case model::Activation::kClampedSilu:
    case model::Activation::kOther:
      break;
  }
  throw Error(ErrorKind::kInternal, "gated() does not support this activation");
}

at::Tensor forward_of(const at::Tensor& gate, const at::Tensor& up, const Operators& act) {
  if (const auto* gpu = tensor::gpu_kernels(gate); gpu != nullptr) {
    at::Tensor y = at::empty_like(gate);
    if (gpu->gated(y, gate, up, act.activation)) return y;
  }
  if (!has_kernels(gate)) return act.aten(gate).mul_(up);
  at::Tensor y = at::empty_like(gate);
  if (!y.is_meta()) act.forward(y, gate, up);
  return y;
}

GatedGradients backward_of(const at::Tensor& gradient, const at::Tensor& gate, const at::Tensor& up,
                           const Operators& act) {
  if (const auto* gpu = tensor::gpu_kernels(gate); gpu != nullptr) {
    GatedGradients of = {at::empty_like(gate), at::empty_like(up)};
    if (gpu->gated_gradients(of.of_gate, of.of_up, gradient.contiguous(), gate, up,
                             act.activation)) {
      return of;
    }
  }
  if (!has_kernels(gate)) {
    return {act.aten_backward(gradient * up, gate), gradient * act.aten(gate)};
  }
  GatedGradients of = {at::empty_like(gate), at::empty_like(up)};
  if (!gate.is_meta()) act.backward(of.of_gate, of.of_up, gradient.contiguous(), gate, up);
  return of;
}

const Operators& operators_of(const AutogradContext& context) {
  return operators_of(static_cast<model::Activation>(context.saved_data.at("activation").toInt()));
}

// Whether the linear layer of the node has a bias.
bool is_biased(const AutogradContext& context) { return context.saved_data.at("biased").toBool(); }

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            model::Activation activation) {
    const at::Tensor given = gate.contiguous(), given_up = up.contiguous();
    context->save_for_backward({given, given_up});
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    return forward_of(given, given_up, operators_of(activation));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    GatedGradients of = backward_of(gradients[0], saved[0], saved[1], operators_of(*context));
    return {of.of_gate, of.of_up, at::Tensor()};
  }
};

struct GatedLinear : torch::autograd::Function<GatedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            model::Activation activation, const WeightForm& form) {
    const at::Tensor given = gate.contiguous(), given_up = up.contiguous();
    context->save_for_backward({given, given_up, weight});
    keep(*context, form);
    context->saved_data["biased"] = bias.has_value();
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    keep_weight_pass(*context);
    return fused::linear(forward_of(given, given_up, operators_of(activation)), weight, bias, form);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Operators& act = operators_of(*context);
    const WeightForm form = kept_form(*context);
    const LinearNeeds needs = {context->needs_input_grad(0) || context->needs_input_grad(1),
                               context->needs_input_grad(2),
                               is_biased(*context) && context->needs_input_grad(3)};
    // The input of the matrix product is recomputed for the weight's gradient, and freed before the
    // gradients of gate and up are allocated. If the weight's gradient is postponed, this input is
    // kept instead of gate and up.
    const auto wide = [&] { return forward_of(saved[0], saved[1], act); };
    const LinearNeeds now = needs_now(*context, needs, saved[2], [&] {
      return [gradient = gradients[0], x = wide(), form] {
        return linear_gradients(gradient, x, {}, {.weight = true}, form).of_weight;
      };
    });
    LinearGradients of = fused::linear_gradients(gradients[0], now.weight ? wide() : at::Tensor(),
                                                 saved[2], now, form);
    GatedGradients of_inputs;
    if (needs.x) of_inputs = backward_of(of.of_x, saved[0], saved[1], act);
    return {of_inputs.of_gate, of_inputs.of_up, of.of_weight,
            of.of_bias,        at::Tensor(),    at::Tensor()};
  }
};

struct ActivatedLinear : torch::autograd::Function<ActivatedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& wide,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            model::Activation activation, const WeightForm& form) {
    context->save_for_backward({wide, weight});
    context->saved_data["biased"] = bias.has_value();
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    keep(*context, form);
    keep_weight_pass(*context);
    return fused::linear(operators_of(activation).aten(wide), weight, bias, form);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Operators& act = operators_of(*context);
    const LinearNeeds needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                               is_biased(*context) && context->needs_input_grad(2)};
    const WeightForm form = kept_form(*context);
    const LinearNeeds now = needs_now(*context, needs, saved[1], [&] {
      return [gradient = gradients[0], x = act.aten(saved[0]), form] {
        return linear_gradients(gradient, x, {}, {.weight = true}, form).of_weight;
      };
    });
    LinearGradients of = fused::linear_gradients(
        gradients[0], now.weight ? act.aten(saved[0]) : at::Tensor(), saved[1], now, form);
    at::Tensor of_wide;
    if (needs.x) of_wide = act.aten_backward(of.of_x, saved[0]);
    return {of_wide, of.of_weight, of.of_bias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, model::Activation activation) {
  return Gated::apply(gate, up, activation);
}

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, model::Activation activation,
                        const WeightForm& form) {
  // Casts weight and bias to the dtype of gate and up, which autocast has already cast.
  const at::ScalarType dtype = gate.scalar_type();
  std::optional<at::Tensor> cast_bias;
  if (bias) cast_bias = bias->to(dtype);
  return GatedLinear::apply(gate, up, weight.to(dtype), cast_bias, activation, form);
}

at::Tensor activated_linear(const at::Tensor& wide, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, model::Activation activation,
                            const WeightForm& form) {
  const at::ScalarType dtype = wide.scalar_type();
  std::optional<at::Tensor> cast_bias;
  if (bias) cast_bias = bias->to(dtype);
  return ActivatedLinear::apply(wide, weight.to(dtype), cast_bias, activation, form);
}

at::Tensor activated(const at::Tensor& wide, model::Activation activation) {
  return operators_of(activation).aten(wide);
}

GatedGradients gated_gradients(const at::Tensor& gradient, const at::Tensor& gate,
                               const at::Tensor& up, model::Activation activation) {
  return backward_of(gradient, gate, up, operators_of(activation));
}

}  // namespace am::nn::fused
