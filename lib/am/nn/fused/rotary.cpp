#include "am/nn/fused/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rotates the heads of one position. y [heads, width] is dense, and the heads of x are `stride`
// elements apart. The first 2 * half elements of a head are rotated, the other elements are copied.
// `sign` = -1 inverts the rotation.
template <typename Scalar>
struct Turn {
  template <int kBytes>
  AM_INLINE static void run(Scalar* y, const Scalar* x, const Scalar* cos, const Scalar* sin,
                            int64_t heads, int64_t stride, int64_t width, int64_t half,
                            Wide<Scalar> sign) {
    for (int64_t head = 0; head < heads; ++head, x += stride, y += width) {
      for_lanes<Scalar, kBytes>(half, [&](int64_t i, auto part) AM_LANES {
        const Vector<Scalar, kBytes> first = load(x + i, part);
        const Vector<Scalar, kBytes> second = load(x + half + i, part);
        const Vector<Scalar, kBytes> s = load(sin + i, part) * sign;
        const Vector<Scalar, kBytes> c = load(cos + i, part);
        store(y + i, part, first * c - second * s);
        store(y + half + i, part, second * c + first * s);
      });
      std::copy(x + 2 * half, x + width, y + 2 * half);
    }
  }
};

at::Tensor turn_by_aten(const at::Tensor& x_BHTK, const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor cos_TR = cos.dim() == 3 ? cos.unsqueeze(1) : cos;
  const at::Tensor sin_TR = sin.dim() == 3 ? sin.unsqueeze(1) : sin;
  const int64_t width = x_BHTK.size(-1), turned = cos.size(-1), half = turned / 2;
  const at::Tensor x = x_BHTK.narrow(-1, 0, turned);
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  at::Tensor y = x * cos_TR + at::cat({-second, first}, -1) * sin_TR;
  if (turned == width) return y;
  // Concatenates as [B, T, H, K], so that the result has the memory layout in which attention
  // expects its queries.
  const at::Tensor rest = x_BHTK.narrow(-1, turned, width - turned);
  return at::cat({y.transpose(1, 2), rest.transpose(1, 2)}, -1).transpose(1, 2);
}

at::Tensor empty_like_rotated(const at::Tensor& x_BHTK) {
  return at::empty({x_BHTK.size(0), x_BHTK.size(2), x_BHTK.size(1), x_BHTK.size(3)},
                   x_BHTK.options());
}

at::Tensor turn(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR,
                bool back) {
  if (const auto* gpu = tensor::gpu_kernels(x_BHTK); gpu != nullptr) {
    const at::Tensor y_BTHK = empty_like_rotated(x_BHTK);
    if (gpu->rotate(y_BTHK, x_BHTK, {}, {}, cos_TR, sin_TR, back)) return y_BTHK.transpose(1, 2);
  }
  if (!has_kernels(x_BHTK)) return turn_by_aten(x_BHTK, cos_TR, back ? -sin_TR : sin_TR);
  const at::Tensor x = x_BHTK.stride(-1) == 1 ? x_BHTK : x_BHTK.contiguous();
  const int64_t length = x.size(2), heads = x.size(1), width = x.size(3), turned = cos_TR.size(-1);
  at::Tensor y_BTHK = at::empty({x.size(0), length, heads, width}, x.options());
  if (!x.is_meta()) {
    visit_dtype(x.scalar_type(), [&](auto scalar) {
      using Scalar = decltype(scalar);
      for_rows(x.size(0) * length, heads * width, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t b = row / length, t = row % length;
          const int64_t at = (cos_TR.dim() == 3 ? row : t) * turned;
          run_kernel<Turn<Scalar>>(y_BTHK.mutable_data_ptr<Scalar>() + row * heads * width,
                                   x.const_data_ptr<Scalar>() + b * x.stride(0) + t * x.stride(2),
                                   cos_TR.const_data_ptr<Scalar>() + at,
                                   sin_TR.const_data_ptr<Scalar>() + at, heads, x.stride(1), width,
                                   turned / 2, back ? Wide<Scalar>(-1) : Wide<Scalar>(1));
        }
      });
    });
  }
  return y_BTHK.transpose(1, 2);
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_BHTK,
                            const at::Tensor& cos_TR, const at::Tensor& sin_TR) {
    context->save_for_backward({cos_TR, sin_TR});
    return turn(x_BHTK, cos_TR, sin_TR, /*back=*/false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1], /*back=*/true), at::Tensor(), at::Tensor()};
  }
};

// Returns rotated queries and keys. Rotates both in one launch if the CUDA plugin's kernel supports
// them.
variable_list turn_both(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                        const at::Tensor& cos_TR, const at::Tensor& sin_TR, bool back) {
  if (const auto* gpu = tensor::gpu_kernels(q_BHTK); gpu != nullptr) {
    const at::Tensor q = empty_like_rotated(q_BHTK), k = empty_like_rotated(k_BGTK);
    if (gpu->rotate(q, q_BHTK, k, k_BGTK, cos_TR, sin_TR, back)) {
      return {q.transpose(1, 2), k.transpose(1, 2)};
    }
  }
  return {turn(q_BHTK, cos_TR, sin_TR, back), turn(k_BGTK, cos_TR, sin_TR, back)};
}

struct RotateBoth : torch::autograd::Function<RotateBoth> {
  static variable_list forward(AutogradContext* context, const at::Tensor& q_BHTK,
                               const at::Tensor& k_BGTK, const at::Tensor& cos_TR,
                               const at::Tensor& sin_TR) {
    context->save_for_backward({cos_TR, sin_TR});
    return turn_both(q_BHTK, k_BGTK, cos_TR, sin_TR, /*back=*/false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    variable_list of = turn_both(gradients[0], gradients[1], saved[0], saved[1], /*back=*/true);
    of.insert(of.end(), 2, at::Tensor());
    return of;
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> rotate_both(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                                              const at::Tensor& cos_TR, const at::Tensor& sin_TR) {
  const bool one_launch = tensor::gpu_kernels(q_BHTK) != nullptr &&
                          q_BHTK.scalar_type() == cos_TR.scalar_type() &&
                          k_BGTK.scalar_type() == cos_TR.scalar_type();
  if (!one_launch) return {rotate(q_BHTK, cos_TR, sin_TR), rotate(k_BGTK, cos_TR, sin_TR)};
  const variable_list both =
      RotateBoth::apply(q_BHTK, k_BGTK, cos_TR.contiguous(), sin_TR.contiguous());
  return {both[0], both[1]};
}

at::Tensor rotate(const at::Tensor& x_BHTK, const at::Tensor& cos_TR, const at::Tensor& sin_TR) {
  if (x_BHTK.scalar_type() != cos_TR.scalar_type()) return turn_by_aten(x_BHTK, cos_TR, sin_TR);
  return Rotate::apply(x_BHTK, cos_TR.contiguous(), sin_TR.contiguous());
}

}  // namespace am::nn::fused
