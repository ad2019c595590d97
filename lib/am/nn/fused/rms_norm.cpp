#include "am/nn/fused/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/nn/fused/device.h"
#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn::fused {

namespace {

using model::NormKind;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Number of rows of x in one block. The weight's gradient is summed over the rows of each block,
// and then over the blocks, so that its bits do not depend on the number of threads.
constexpr int64_t kRowsOfASum = 64;

// Dtype of the weight in kernels. kRms rounds twice and reads the weight in x's dtype, Scalar. The
// other kinds round once and read the weight in the dtype of the sums.
template <NormKind kKind, typename Scalar>
using Weight = std::conditional_t<kKind == NormKind::kRms, Scalar, Wide<Scalar>>;

// scale_of returns the factor of the normalised values: weight, or 1 + weight. before_scale returns
// the normalised values as they enter the multiplication by this factor: rounded if the kind is
// kRms.
template <NormKind kKind, typename Stored, typename Part>
AM_INLINE auto scale_of(const Stored* weight, Part part) {
  auto scale = load(weight, part);
  if constexpr (kKind == NormKind::kRmsPlusOne) scale = 1 + scale;
  return scale;
}
template <NormKind kKind, typename Scalar, typename Lanes>
AM_INLINE Lanes before_scale(const Lanes& normal) {
  if constexpr (kKind == NormKind::kRms) return rounded<Scalar>(normal);
  return normal;
}

// Writes the RMSNorm of the rows of x, which have `width` elements, to y, and 1 / sqrt(mean(x^2) +
// eps) of each row to `inverse`.
template <NormKind kKind, typename Scalar>
struct Normalize {
  template <int kBytes>
  using Lanes = Vector<Scalar, kBytes>;

  template <int kBytes>
  AM_INLINE static void run(Scalar* y, Wide<Scalar>* inverse, const Scalar* x,
                            const Weight<kKind, Scalar>* weight, int64_t rows, int64_t width,
                            double eps) {
    for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
      Lanes<kBytes> squares = {};
      for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
        const Lanes<kBytes> lanes = load(x + i, part);
        squares += lanes * lanes;
      });
      const double mean = sum_of(squares) / static_cast<double>(width);
      const auto scale = static_cast<Wide<Scalar>>(1.0 / std::sqrt(mean + eps));
      inverse[row] = scale;
      for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
        const Lanes<kBytes> normal = load(x + i, part) * scale;
        store(y + i, part, before_scale<kKind, Scalar>(normal) * scale_of<kKind>(weight + i, part));
      });
    }
  }
};

// Computes the gradients from `gradient`, the gradient of y. With n = x * inverse and g = gradient
// * scale_of(weight), of_x = inverse * (g - n * mean(g n)). of_weight is the sum over the rows of
// gradient * n, with n rounded if the kind is kRms.
template <NormKind kKind, typename Scalar>
struct NormalizeBackward {
  template <int kBytes>
  using Lanes = Vector<Scalar, kBytes>;

  template <int kBytes>
  AM_INLINE static void run(Scalar* of_x, Wide<Scalar>* of_weight, const Scalar* gradient,
                            const Scalar* x, const Wide<Scalar>* inverse,
                            const Weight<kKind, Scalar>* weight, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < width; ++i) of_weight[i] = 0;
    for (int64_t row = 0; row < rows; ++row, x += width, gradient += width, of_x += width) {
      const Wide<Scalar> scale = inverse[row];
      Lanes<kBytes> products = {};
      for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
        const Lanes<kBytes> normal = load(x + i, part) * scale;
        const Lanes<kBytes> of_y = load(gradient + i, part);
        const Lanes<kBytes> sum =
            load(of_weight + i, part) + of_y * before_scale<kKind, Scalar>(normal);
        store(of_weight + i, part, sum);
        products += of_y * scale_of<kKind>(weight + i, part) * normal;
      });
      const auto mean = static_cast<Wide<Scalar>>(sum_of(products) / static_cast<double>(width));
      for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
        const Lanes<kBytes> normal = load(x + i, part) * scale;
        const Lanes<kBytes> of_normal =
            load(gradient + i, part) * scale_of<kKind>(weight + i, part);
        store(of_x + i, part, (of_normal - normal * mean) * scale);
      });
    }
  }
};

// Calls `visit` with the kind as a compile-time constant. The LayerNorm kinds, which rms_norm()
// refuses, count as kRms.
template <typename Visit>
void visit_kind(NormKind kind, const Visit& visit) {
  switch (kind) {
    case NormKind::kRmsWide:
      return visit(std::integral_constant<NormKind, NormKind::kRmsWide>());
    case NormKind::kRmsPlusOne:
      return visit(std::integral_constant<NormKind, NormKind::kRmsPlusOne>());
    case NormKind::kRms:
    case NormKind::kLayer:
    case NormKind::kLayerPlusOne:
      return visit(std::integral_constant<NormKind, NormKind::kRms>());
  }
}

// Returns the weight in the dtype that a kernel of this kind reads.
at::Tensor kernel_weight(const at::Tensor& weight, const at::Tensor& x, NormKind kind) {
  const bool rounds = kind == NormKind::kRms;
  return (rounds ? weight : weight.to(wide_dtype(x.scalar_type()))).contiguous();
}

int64_t row_count(const at::Tensor& x) { return x.numel() / std::max<int64_t>(1, x.size(-1)); }

// ---- RMSNorm by ATen's operators

// Returns the normalised values, multiplied by weight (or 1 + weight), in `dtype`. kRms also rounds
// `normal` to `dtype` before this multiplication.
at::Tensor scaled(const at::Tensor& normal, const at::Tensor& weight, at::ScalarType dtype,
                  NormKind kind) {
  if (kind == NormKind::kRms) return normal.to(dtype) * weight;
  const at::Tensor wide = weight.to(normal.scalar_type());
  return (normal * (kind == NormKind::kRmsPlusOne ? 1 + wide : wide)).to(dtype);
}

std::tuple<at::Tensor, at::Tensor> forward_of_aten(const at::Tensor& x, const at::Tensor& weight,
                                                   double eps, NormKind kind) {
  const at::Tensor wide = x.to(wide_dtype(x.scalar_type()));
  at::Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {scaled(wide * inverse, weight, x.scalar_type(), kind), std::move(inverse)};
}

variable_list backward_of_aten(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& inverse, const at::Tensor& weight, NormKind kind) {
  const auto dtype = x.scalar_type();
  const auto wide = inverse.scalar_type();
  const bool rounds = kind == NormKind::kRms;
  const at::Tensor normal = x.to(wide) * inverse;
  const at::Tensor of_normal =
      rounds ? (gradient * weight).to(wide)
             : gradient.to(wide) *
                   (kind == NormKind::kRmsPlusOne ? 1 + weight.to(wide) : weight.to(wide));
  const at::Tensor mean = (of_normal * normal).mean(-1, /*keepdim=*/true);
  const at::Tensor products = rounds ? gradient * normal.to(dtype) : gradient.to(wide) * normal;
  const at::Tensor of_weight = products.reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
  return {((of_normal - normal * mean) * inverse).to(dtype), of_weight, at::Tensor(), at::Tensor()};
}

// ---- RMSNorm by the CUDA plugin's kernels

// Returns the CUDA plugin's kernels; null if they do not support x, or if x and the weight differ
// in dtype.
const tensor::GpuKernels* plugin_kernels(const at::Tensor& x, const at::Tensor& weight) {
  return x.scalar_type() == weight.scalar_type() ? tensor::gpu_kernels(x) : nullptr;
}

// Returns an uninitialised float32 tensor with one number per row of x. Its shape is [.., 1], as
// ATen's GPU kernels expect.
at::Tensor empty_inverse(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return at::empty(sizes, x.options().dtype(at::kFloat));
}

// ---- RMSNorm by ATen's GPU kernels, if the plugin's kernels cannot run

// Returns the dtype in which x and the weight are passed to ATen's GPU kernels, which require equal
// dtypes. Returns x's dtype, or wide_dtype() if x's dtype may not represent the factor of the
// normalised values: 1 + weight, or a weight of another dtype.
at::ScalarType gpu_dtype(const at::Tensor& x, const at::Tensor& weight, NormKind kind) {
  const bool fits = x.scalar_type() == weight.scalar_type() && kind != NormKind::kRmsPlusOne;
  return fits ? x.scalar_type() : wide_dtype(x.scalar_type());
}

at::Tensor gpu_weight(const at::Tensor& weight, at::ScalarType dtype, NormKind kind) {
  const at::Tensor scale = weight.to(dtype);
  return kind == NormKind::kRmsPlusOne ? scale + 1 : scale;
}

std::tuple<at::Tensor, at::Tensor> forward_of_gpu(const at::Tensor& x, const at::Tensor& weight,
                                                  double eps, NormKind kind) {
  if (const auto* plugin = plugin_kernels(x, weight); plugin != nullptr) {
    at::Tensor y = at::empty_like(x), inverse = empty_inverse(x);
    if (plugin->rms_norm(y, inverse, {}, x, {}, weight, eps, kind)) return {y, inverse};
  }
  const at::ScalarType dtype = gpu_dtype(x, weight, kind);
  auto [y, inverse] =
      at::_fused_rms_norm(x.to(dtype), {x.size(-1)}, gpu_weight(weight, dtype, kind), eps);
  return {y.to(x.scalar_type()), std::move(inverse)};
}

// Returns the gradients of x and of the weight. If `of_sum` is defined, it is added to the gradient
// of x. `asked`: whether the gradient of x, and that of the weight, is required.
variable_list backward_of_gpu(const at::Tensor& gradient, const at::Tensor& of_sum,
                              const at::Tensor& x, const at::Tensor& inverse,
                              const at::Tensor& weight, NormKind kind, std::array<bool, 2> asked) {
  if (const auto* plugin = plugin_kernels(x, weight); plugin != nullptr) {
    const at::Tensor of_x = at::empty_like(x);
    at::Tensor of_weight, more;
    if (asked[1]) of_weight = at::empty_like(weight);
    if (of_sum.defined()) more = of_sum.contiguous();
    if (plugin->rms_norm_gradients(of_x, of_weight, gradient.contiguous(), more, x, inverse, weight,
                                   kind)) {
      return {of_x, of_weight, at::Tensor(), at::Tensor()};
    }
  }
  const at::ScalarType dtype = gpu_dtype(x, weight, kind);
  auto [of_x, of_weight] =
      at::_fused_rms_norm_backward(gradient.to(dtype).contiguous(), x.to(dtype).contiguous(),
                                   {x.size(-1)}, inverse, gpu_weight(weight, dtype, kind), asked);
  if (asked[0]) of_x = of_x.to(x.scalar_type());
  if (asked[0] && of_sum.defined()) of_x = of_x + of_sum;
  if (asked[1]) of_weight = of_weight.to(weight.scalar_type());
  return {of_x, of_weight, at::Tensor(), at::Tensor()};
}

// ---- RMSNorm by this file's host kernels

std::tuple<at::Tensor, at::Tensor> forward_of_kernel(const at::Tensor& x, const at::Tensor& weight,
                                                     double eps, NormKind kind) {
  at::Tensor y = at::empty_like(x);
  at::Tensor inverse_N = at::empty({row_count(x)}, x.options().dtype(wide_dtype(x.scalar_type())));
  if (x.is_meta()) return {y, inverse_N};
  const int64_t width = x.size(-1);
  visit_dtype(x.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    visit_kind(kind, [&](auto constant) {
      for_rows(row_count(x), width, [&](int64_t begin, int64_t end) {
        run_kernel<Normalize<decltype(constant)::value, Scalar>>(
            y.mutable_data_ptr<Scalar>() + begin * width,
            inverse_N.mutable_data_ptr<Wide<Scalar>>() + begin,
            x.const_data_ptr<Scalar>() + begin * width,
            weight.const_data_ptr<Weight<decltype(constant)::value, Scalar>>(), end - begin, width,
            eps);
      });
    });
  });
  return {y, inverse_N};
}

variable_list backward_of_kernel(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& inverse_N, const at::Tensor& weight,
                                 NormKind kind) {
  const int64_t rows = row_count(x), width = x.size(-1);
  const int64_t sums = (rows + kRowsOfASum - 1) / kRowsOfASum;
  at::Tensor of_x = at::empty_like(x);
  const at::Tensor of_weight_SD = at::empty({sums, width}, inverse_N.options());
  if (!x.is_meta()) {
    visit_dtype(x.scalar_type(), [&](auto scalar) {
      using Scalar = decltype(scalar);
      visit_kind(kind, [&](auto constant) {
        for_rows(sums, kRowsOfASum * width, [&](int64_t begin, int64_t end) {
          for (int64_t sum = begin; sum < end; ++sum) {
            const int64_t row = sum * kRowsOfASum, at = row * width;
            run_kernel<NormalizeBackward<decltype(constant)::value, Scalar>>(
                of_x.mutable_data_ptr<Scalar>() + at,
                of_weight_SD.mutable_data_ptr<Wide<Scalar>>() + sum * width,
                gradient.const_data_ptr<Scalar>() + at, x.const_data_ptr<Scalar>() + at,
                inverse_N.const_data_ptr<Wide<Scalar>>() + row,
                weight.const_data_ptr<Weight<decltype(constant)::value, Scalar>>(),
                std::min(kRowsOfASum, rows - row), width);
          }
        });
      });
    });
  }
  return {of_x, of_weight_SD.sum(0), at::Tensor(), at::Tensor()};
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps, NormKind kind) {
    const bool plugin = plugin_kernels(x, weight) != nullptr;
    const bool gpu = plugin || on_gpu(x), kernels = !gpu && has_kernels(x);
    const at::Tensor given = plugin || kernels ? x.contiguous() : x;
    auto [y, inverse] =
        gpu       ? forward_of_gpu(given, weight, eps, kind)
        : kernels ? forward_of_kernel(given, kernel_weight(weight, given, kind), eps, kind)
                  : forward_of_aten(given, weight, eps, kind);
    context->save_for_backward({given, inverse, weight});
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto kind = static_cast<NormKind>(context->saved_data["kind"].toInt());
    if (plugin_kernels(saved[0], saved[2]) != nullptr || on_gpu(saved[0])) {
      return backward_of_gpu(gradients[0], {}, saved[0], saved[1], saved[2], kind,
                             {context->needs_input_grad(0), context->needs_input_grad(1)});
    }
    if (!has_kernels(saved[0])) {
      return backward_of_aten(gradients[0], saved[0], saved[1], saved[2], kind);
    }
    variable_list of = backward_of_kernel(gradients[0].contiguous(), saved[0], saved[1],
                                          kernel_weight(saved[2], saved[0], kind), kind);
    of[1] = of[1].to(saved[2].scalar_type());
    return of;
  }
};

// Returns x + added and the norm of this sum. One kernel of the plugin computes both; if it does
// not support the arguments, at::add_out and forward_of_gpu() run.
struct SumAndNorm : torch::autograd::Function<SumAndNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& added, const at::Tensor& weight, double eps,
                               NormKind kind) {
    const at::Tensor given = x.contiguous(), more = added.contiguous();
    at::Tensor sum = at::empty_like(given), y = at::empty_like(given);
    at::Tensor inverse = empty_inverse(given);
    if (!plugin_kernels(given, weight)->rms_norm(y, inverse, sum, given, more, weight, eps, kind)) {
      at::add_out(sum, given, more);
      std::tie(y, inverse) = forward_of_gpu(sum, weight, eps, kind);
    }
    context->save_for_backward({sum, inverse, weight});
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    context->set_materialize_grads(false);
    return {sum, y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto kind = static_cast<NormKind>(context->saved_data["kind"].toInt());
    const at::Tensor &of_sum = gradients[0], &of_y = gradients[1];
    const std::array<bool, 2> asked = {context->needs_input_grad(0) || context->needs_input_grad(1),
                                       context->needs_input_grad(2)};
    if (!of_y.defined()) return {of_sum, of_sum, {}, {}, {}};
    const variable_list of =
        backward_of_gpu(of_y, of_sum, saved[0], saved[1], saved[2], kind, asked);
    return {of[0], of[0], of[1], {}, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, NormKind kind) {
  AM_ASSERT(!model::is_layer_norm(kind), "a LayerNorm is not an RMSNorm");
  if (x.scalar_type() == weight.scalar_type() || kind != NormKind::kRms) {
    return Norm::apply(x, weight, eps, kind);
  }
  const at::Tensor wide = at::rms_norm(x.to(at::kFloat), {x.size(-1)}, {}, eps);
  return weight * wide.to(x.scalar_type());
}

NormedSum normed_sum(const at::Tensor& x, at::Tensor added, const at::Tensor& weight, double eps,
                     NormKind kind) {
  AM_ASSERT(!model::is_layer_norm(kind), "a LayerNorm is not an RMSNorm");
  if (plugin_kernels(x, weight) != nullptr && x.scalar_type() == added.scalar_type() &&
      x.sizes() == added.sizes()) {
    const variable_list both = SumAndNorm::apply(x, added, weight, eps, kind);
    return {both[0], both[1]};
  }
  const at::Tensor sum = x + std::exchange(added, {});  // frees `added` before y is allocated
  return {sum, rms_norm(sum, weight, eps, kind)};
}

}  // namespace am::nn::fused
