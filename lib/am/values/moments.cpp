#include "am/values/moments.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "am/tensor/side_stream.h"
#include "am/values/narrow_lanes.h"

namespace am::values {
namespace {

using nn::fused::largest_of;
using nn::fused::smallest_of;
using nn::fused::sum_of;

// Number of elements that are converted to double at a time.
constexpr int64_t kBlock = int64_t{256} << 10;

// Sums over the values x of a block: `distance` of x - near, `squared` of (x - near)^2, and
// `absolutes` of |x|. `near` is an estimate of the mean. If `near` is at most one standard
// deviation from the mean, rounding errors of the sums hardly affect the moments.
struct Sums {
  double distance = 0.0, squared = 0.0, absolutes = 0.0;
  double min = 0.0, max = 0.0;
};

template <typename Scalar>
struct SumsFrom {
  template <int kBytes>
  AM_INLINE static void run(const Scalar* values, int64_t count, double near, Sums* result) {
    constexpr int64_t kStep = nn::fused::kLanes<float, kBytes>;
    // Sums over the lower halves of the vectors, or over the upper halves. Additions to separate
    // sums do not wait for each other.
    struct Half {
      Doubles<kBytes> distance = {}, squared = {}, absolutes = {};

      AM_INLINE void add(const Doubles<kBytes>& x, double near) {
        const Doubles<kBytes> apart = x - near;
        distance += apart;
        squared += apart * apart;
        absolutes += magnitude<kBytes>(x);
      }
    };
    Half low, high;
    Floats<kBytes> min = Floats<kBytes>{} + static_cast<float>(values[0]), max = min;
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) {
      const Floats<kBytes> narrow = nn::fused::load(values + i, nn::fused::All<kBytes>{});
      min = narrow < min ? narrow : min;
      max = narrow > max ? narrow : max;
      const TwoWide<kBytes> x = widened<kBytes>(narrow);
      low.add(x.low, near);
      high.add(x.high, near);
    }
    *result = {sum_of(low.distance) + sum_of(high.distance),
               sum_of(low.squared) + sum_of(high.squared),
               sum_of(low.absolutes) + sum_of(high.absolutes), smallest_of(min), largest_of(max)};
    for (; i < count; ++i) {
      const auto x = static_cast<double>(values[i]);
      const double apart = x - near;
      result->distance += apart;
      result->squared += apart * apart;
      result->absolutes += x < 0.0 ? -x : x;
      result->min = x < result->min ? x : result->min;
      result->max = x > result->max ? x : result->max;
    }
  }
};

// Returns the moments of a block of finite values. If a value is not finite, `absolutes` is not
// finite either, and the caller must discard the result.
template <typename Scalar>
Moments of_finite(const at::Tensor& values) {
  const auto* x = values.const_data_ptr<Scalar>();
  const int64_t count = values.numel();
  const auto sums_from = [&](double near) {
    Sums sums;
    nn::fused::run_kernel<SumsFrom<Scalar>>(x, count, near, &sums);
    return sums;
  };
  constexpr int64_t kSample = 256;
  double near = 0.0;
  for (int64_t i = 0; i < std::min(count, kSample); ++i) near += static_cast<double>(x[i]);
  near /= static_cast<double>(std::min(count, kSample));
  Sums sums = sums_from(near);
  const auto n = static_cast<double>(count);
  if (sums.distance * sums.distance >
      sums.squared * n / 2) {  // `near` is too far from the mean: repeats the sums
    near += sums.distance / n;
    sums = sums_from(near);
  }
  Moments result;
  result.numel = count;
  result.mean = near + sums.distance / n;
  result.squared_deviations = std::max(0.0, sums.squared - sums.distance * sums.distance / n);
  result.squares = result.squared_deviations + n * result.mean * result.mean;
  result.absolutes = sums.absolutes;
  result.min = sums.min;
  result.max = sums.max;
  return result;
}

// Returns the moments of a float32, bfloat16 or float16 block on the host. Returns nothing for
// other dtypes, for an empty block, for a block on a device, and for a block with a value that is
// not finite.
std::optional<Moments> of_narrow(const at::Tensor& block) {
  const at::ScalarType dtype = block.scalar_type();
  if (!block.is_cpu() || block.numel() == 0) return std::nullopt;
  Moments found;
  if (dtype == at::kBFloat16) {
    found = of_finite<at::BFloat16>(block.contiguous());
  } else if (dtype == at::kFloat || dtype == at::kHalf) {
    found = of_finite<float>(block.to(at::kFloat).contiguous());
  } else {
    return std::nullopt;
  }
  if (!std::isfinite(found.absolutes)) return std::nullopt;
  return found;
}

Moments of_block(const at::Tensor& block) {
  if (const auto found = of_narrow(block)) return *found;
  Moments result;
  result.numel = block.numel();
  const at::Tensor values = to_numbers(block);
  const at::Tensor is_finite = at::isfinite(values);
  const int64_t finite = is_finite.sum().item<int64_t>();
  if (finite < result.numel) {
    result.nan = at::isnan(values).sum().item<int64_t>();
    result.inf = result.numel - finite - result.nan;
  }
  if (finite == 0) return result;
  const at::Tensor kept = finite == result.numel ? values : values.masked_select(is_finite);
  result.min = kept.min().item<double>();
  result.max = kept.max().item<double>();
  result.mean = kept.mean().item<double>();
  result.squared_deviations = (kept - result.mean).square().sum().item<double>();
  result.squares = kept.square().sum().item<double>();
  result.absolutes = kept.norm(1).item<double>();
  return result;
}

// Returns the moments of a block on a device as a tensor [Moments::kWords] on that device, in the
// order of Moments::pack(). Does not synchronize with the host.
at::Tensor words_on_device(const at::Tensor& block) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor values = to_numbers(block);
  const at::Tensor is_finite = at::isfinite(values);
  const at::Tensor is_nan = at::isnan(values);
  const auto in_double = [](const at::Tensor& count) { return count.sum().to(at::kDouble); };
  const at::Tensor finite = in_double(is_finite);
  const at::Tensor kept = at::where(is_finite, values, 0.0);
  const at::Tensor mean = kept.sum() / finite.clamp_min(1.0);
  return at::stack({at::full_like(finite, static_cast<double>(block.numel())), in_double(is_nan),
                    block.numel() - finite - in_double(is_nan),
                    at::where(is_finite, values, infinity).min(),
                    at::where(is_finite, values, -infinity).max(), mean,
                    at::where(is_finite, values - mean, 0.0).square().sum(), kept.square().sum(),
                    kept.abs().sum()});
}

// Returns the moments of values on a device. Computes them on the device block by block, and copies
// only each block's moments to the host.
Moments on_device(const at::Tensor& flat) {
  Moments all;
  std::vector<at::Tensor> words;
  for (int64_t first = 0; first < flat.numel(); first += kDeviceBlock) {
    words.push_back(
        words_on_device(flat.narrow(0, first, std::min(kDeviceBlock, flat.numel() - first))));
  }
  if (words.empty()) return all;
  const at::Tensor here = at::stack(words).cpu();
  for (int64_t i = 0; i < here.size(0); ++i) {
    all.merge(Moments::unpack(here.const_data_ptr<double>() + i * Moments::kWords));
  }
  return all;
}

}  // namespace

at::Tensor to_numbers(const at::Tensor& values) {
  return (values.is_complex() ? values.abs() : values).to(at::kDouble);
}

double Moments::std() const {
  if (finite() < 2) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(squared_deviations / static_cast<double>(finite() - 1));
}

double Moments::norm() const { return std::sqrt(squares); }

double Moments::rms() const { return std::sqrt(squares / static_cast<double>(finite())); }

double Moments::max_abs() const {
  if (finite() == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::max(std::abs(min), std::abs(max));
}

void Moments::add(const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = values.reshape({-1});
  if (tensor::is_asynchronous(flat.device())) return merge(on_device(flat));
  for (int64_t first = 0; first < flat.numel(); first += kBlock) {
    merge(of_block(flat.narrow(0, first, std::min(kBlock, flat.numel() - first))));
  }
}

void Moments::merge(const Moments& other) {
  const auto mine = static_cast<double>(finite());
  const auto others = static_cast<double>(other.finite());
  numel += other.numel;
  nan += other.nan;
  inf += other.inf;
  if (others == 0.0) return;
  if (mine == 0.0) mean = other.mean;
  const double delta = other.mean - mean;
  mean += delta * others / (mine + others);
  squared_deviations += other.squared_deviations + delta * delta * mine * others / (mine + others);
  squares += other.squares;
  absolutes += other.absolutes;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

std::array<double, Moments::kWords> Moments::pack() const {
  return {static_cast<double>(numel),
          static_cast<double>(nan),
          static_cast<double>(inf),
          min,
          max,
          mean,
          squared_deviations,
          squares,
          absolutes};
}

Moments Moments::unpack(const double* words) {
  Moments result;
  result.numel = static_cast<int64_t>(words[0]);
  result.nan = static_cast<int64_t>(words[1]);
  result.inf = static_cast<int64_t>(words[2]);
  result.min = words[3];
  result.max = words[4];
  result.mean = words[5];
  result.squared_deviations = words[6];
  result.squares = words[7];
  result.absolutes = words[8];
  return result;
}

}  // namespace am::values
