#include "am/nn/fused/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/fused/dispatch.h"
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

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    if (!has_kernels(gate)) {
      context->save_for_backward({gate, up});
      return at::silu(gate).mul_(up);
    }
    const at::Tensor given = gate.contiguous(), given_up = up.contiguous();
    context->save_for_backward({given, given_up});
    at::Tensor y = at::empty_like(given);
    if (!y.is_meta()) run_forward(y, given, given_up);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& gate = saved[0];
    const at::Tensor& up = saved[1];
    if (!has_kernels(gate)) {
      return {at::silu_backward(gradients[0] * up, gate), gradients[0] * at::silu(gate)};
    }
    at::Tensor of_gate = at::empty_like(gate), of_up = at::empty_like(up);
    if (!gate.is_meta()) run_backward(of_gate, of_up, gradients[0].contiguous(), gate, up);
    return {of_gate, of_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return SwiGlu::apply(gate, up); }

}  // namespace am::nn::fused
