#include "am/nn/fused/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The weight's gradient is summed over so many rows, and then over these sums, whatever the number
// of threads.
constexpr int64_t kRowsOfASum = 64;

// Rows of `width` elements; inverse: of the root mean square.
template <typename Scalar>
struct Normalize {
  AM_INLINE static void run(Scalar* y, Wide<Scalar>* inverse, const Scalar* x, const Scalar* weight,
                            int64_t rows, int64_t width, double eps) {
    for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
      Vector<Scalar> squares = {};
      for_lanes<Scalar>(width, [&](int64_t i, auto part) AM_LANES {
        const Vector<Scalar> lanes = load(x + i, part);
        squares += lanes * lanes;
      });
      const double mean = sum_of<Scalar>(squares) / static_cast<double>(width);
      const auto scale = static_cast<Wide<Scalar>>(1.0 / std::sqrt(mean + eps));
      inverse[row] = scale;
      for_lanes<Scalar>(width, [&](int64_t i, auto part) AM_LANES {
        const Vector<Scalar> normal = rounded<Scalar>(load(x + i, part) * scale);
        store(y + i, part, normal * load(weight + i, part));
      });
    }
  }
};

// With n = x * inverse and g = gradient * weight: of_x = inverse * (g - n * mean(g n)), and
// of_weight is the sum of gradient * n over the rows.
template <typename Scalar>
struct NormalizeBackward {
  AM_INLINE static void run(Scalar* of_x, Wide<Scalar>* of_weight, const Scalar* gradient,
                            const Scalar* x, const Wide<Scalar>* inverse, const Scalar* weight,
                            int64_t rows, int64_t width) {
    for (int64_t i = 0; i < width; ++i) of_weight[i] = 0;
    for (int64_t row = 0; row < rows; ++row, x += width, gradient += width, of_x += width) {
      const Wide<Scalar> scale = inverse[row];
      Vector<Scalar> products = {};
      for_lanes<Scalar>(width, [&](int64_t i, auto part) AM_LANES {
        const Vector<Scalar> normal = load(x + i, part) * scale;
        const Vector<Scalar> of_y = load(gradient + i, part);
        const Vector<Scalar> sum = load(of_weight + i, part) + of_y * rounded<Scalar>(normal);
        store(of_weight + i, part, sum);
        products += of_y * load(weight + i, part) * normal;
      });
      const auto mean =
          static_cast<Wide<Scalar>>(sum_of<Scalar>(products) / static_cast<double>(width));
      for_lanes<Scalar>(width, [&](int64_t i, auto part) AM_LANES {
        const Vector<Scalar> normal = load(x + i, part) * scale;
        const Vector<Scalar> of_normal = load(gradient + i, part) * load(weight + i, part);
        store(of_x + i, part, (of_normal - normal * mean) * scale);
      });
    }
  }
};

int64_t row_count(const at::Tensor& x) { return x.numel() / std::max<int64_t>(1, x.size(-1)); }

// ---- by ATen's operators
// ----------------------------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> forward_of_aten(const at::Tensor& x, const at::Tensor& weight,
                                                   double eps) {
  const at::Tensor wide = x.to(wide_dtype(x.scalar_type()));
  at::Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {(wide * inverse).to(x.scalar_type()) * weight, std::move(inverse)};
}

variable_list backward_of_aten(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& inverse, const at::Tensor& weight) {
  const auto dtype = x.scalar_type();
  const at::Tensor normal = x.to(inverse.scalar_type()) * inverse;
  const at::Tensor of_normal = (gradient * weight).to(inverse.scalar_type());
  const at::Tensor mean = (of_normal * normal).mean(-1, /*keepdim=*/true);
  const at::Tensor of_weight = (gradient * normal.to(dtype)).reshape({-1, x.size(-1)}).sum(0);
  return {((of_normal - normal * mean) * inverse).to(dtype), of_weight, at::Tensor()};
}

// ---- by kernels
// -------------------------------------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> forward_of_kernel(const at::Tensor& x, const at::Tensor& weight,
                                                     double eps) {
  at::Tensor y = at::empty_like(x);
  at::Tensor inverse_N = at::empty({row_count(x)}, x.options().dtype(wide_dtype(x.scalar_type())));
  if (x.is_meta()) return {y, inverse_N};
  const int64_t width = x.size(-1);
  visit_dtype(x.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    for_rows(row_count(x), width, [&](int64_t begin, int64_t end) {
      run_kernel<Normalize<Scalar>>(y.mutable_data_ptr<Scalar>() + begin * width,
                                    inverse_N.mutable_data_ptr<Wide<Scalar>>() + begin,
                                    x.const_data_ptr<Scalar>() + begin * width,
                                    weight.const_data_ptr<Scalar>(), end - begin, width, eps);
    });
  });
  return {y, inverse_N};
}

variable_list backward_of_kernel(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& inverse_N, const at::Tensor& weight) {
  const int64_t rows = row_count(x), width = x.size(-1);
  const int64_t sums = (rows + kRowsOfASum - 1) / kRowsOfASum;
  at::Tensor of_x = at::empty_like(x);
  const at::Tensor of_weight_SD = at::empty({sums, width}, inverse_N.options());
  if (!x.is_meta()) {
    visit_dtype(x.scalar_type(), [&](auto scalar) {
      using Scalar = decltype(scalar);
      for_rows(sums, kRowsOfASum * width, [&](int64_t begin, int64_t end) {
        for (int64_t sum = begin; sum < end; ++sum) {
          const int64_t row = sum * kRowsOfASum, at = row * width;
          run_kernel<NormalizeBackward<Scalar>>(
              of_x.mutable_data_ptr<Scalar>() + at,
              of_weight_SD.mutable_data_ptr<Wide<Scalar>>() + sum * width,
              gradient.const_data_ptr<Scalar>() + at, x.const_data_ptr<Scalar>() + at,
              inverse_N.const_data_ptr<Wide<Scalar>>() + row, weight.const_data_ptr<Scalar>(),
              std::min(kRowsOfASum, rows - row), width);
        }
      });
    });
  }
  return {of_x, of_weight_SD.sum(0).to(weight.scalar_type()), at::Tensor()};
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const at::Tensor given = has_kernels(x) ? x.contiguous() : x;
    auto [y, inverse] = has_kernels(x) ? forward_of_kernel(given, weight.contiguous(), eps)
                                       : forward_of_aten(given, weight, eps);
    context->save_for_backward({given, inverse, weight});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    if (!has_kernels(saved[0])) {
      return backward_of_aten(gradients[0], saved[0], saved[1], saved[2]);
    }
    return backward_of_kernel(gradients[0].contiguous(), saved[0], saved[1], saved[2].contiguous());
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (x.scalar_type() == weight.scalar_type()) return Norm::apply(x, weight, eps);
  const at::Tensor wide = at::rms_norm(x.to(at::kFloat), {x.size(-1)}, {}, eps);
  return weight * wide.to(x.scalar_type());
}

}  // namespace am::nn::fused
