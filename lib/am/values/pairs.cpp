#include "am/values/pairs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "am/values/narrow_lanes.h"

namespace am::values {
namespace {

using nn::fused::larger;
using nn::fused::largest_of;
using nn::fused::sum_of;

at::Tensor doubles_of(const at::Tensor& values) {
  return (values.is_complex() ? at::view_as_real(values) : values).to(at::kDouble);
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_contiguous() && b.is_contiguous() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Differences between two blocks of finite values. `magnitudes` is the sum of all |a| and |b|. If
// `magnitudes` is not finite, the blocks may contain values that are not finite, and the caller
// must discard the differences.
struct Apart {
  double max_abs = 0.0, relative = 0.0, magnitudes = 0.0;
};

// Smallest denominator of the relative difference. Makes the relative difference of two zeros 0.
constexpr double kLeast = std::numeric_limits<double>::min();

template <typename Scalar>
struct ApartOf {
  template <int kBytes>
  AM_INLINE static void run(const Scalar* a, const Scalar* b, int64_t count, Apart* result) {
    using Lanes = Doubles<kBytes>;
    Lanes apart = {}, ratio = {}, magnitudes = {};
    const int64_t done =
        for_each_wide_pair<kBytes>(a, b, count, [&](const Lanes& x, const Lanes& y) AM_LANES {
          const Lanes difference = magnitude<kBytes>(x - y), of_x = magnitude<kBytes>(x),
                      of_y = magnitude<kBytes>(y);
          apart = larger(apart, difference);
          ratio = larger(ratio, Lanes(difference / larger(larger(of_x, of_y), Lanes{} + kLeast)));
          magnitudes += of_x + of_y;
        });
    *result = {largest_of(apart), largest_of(ratio), sum_of(magnitudes)};
    for (int64_t i = done; i < count; ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      const double difference = std::abs(x - y), larger = std::max(std::abs(x), std::abs(y));
      result->max_abs = std::max(result->max_abs, difference);
      result->relative = std::max(result->relative, difference / std::max(larger, kLeast));
      result->magnitudes += std::abs(x) + std::abs(y);
    }
  }
};

template <typename Scalar>
struct ChangeOf {
  template <int kBytes>
  AM_INLINE static void run(const Scalar* a, const Scalar* b, int64_t count, Change* result) {
    using Lanes = Doubles<kBytes>;
    Lanes moved = {}, before = {}, dot = {}, after = {};
    const int64_t done =
        for_each_wide_pair<kBytes>(a, b, count, [&](const Lanes& x, const Lanes& y) AM_LANES {
          moved += (y - x) * (y - x);
          before += x * x;
          dot += x * y;
          after += y * y;
        });
    *result = {sum_of(moved), sum_of(before), sum_of(dot), sum_of(after)};
    for (int64_t i = done; i < count; ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      result->moved += (y - x) * (y - x);
      result->before += x * x;
      result->dot += x * y;
      result->after += y * y;
    }
  }
};

// Returns whether the values are on the host and have a dtype that float32 represents exactly.
bool is_narrow(const at::Tensor& values) {
  const at::ScalarType dtype = values.scalar_type();
  return values.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf);
}

template <typename Kernel, typename Scalar, typename Found>
Found found_by(const at::Tensor& a, const at::Tensor& b) {
  Found found;
  nn::fused::run_kernel<Kernel>(a.const_data_ptr<Scalar>(), b.const_data_ptr<Scalar>(), a.numel(),
                                &found);
  return found;
}

// Returns the result of the vectorized kernel for two blocks. Returns nothing if is_narrow() is
// false for one of the blocks.
template <template <typename> typename Kernel, typename Found>
std::optional<Found> of_narrow(const at::Tensor& a, const at::Tensor& b) {
  if (!is_narrow(a) || !is_narrow(b)) return std::nullopt;
  if (a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16) {
    return found_by<Kernel<at::BFloat16>, at::BFloat16, Found>(a.contiguous(), b.contiguous());
  }
  return found_by<Kernel<float>, float, Found>(a.to(at::kFloat).contiguous(),
                                               b.to(at::kFloat).contiguous());
}

void add_any(Distance& distance, const at::Tensor& left, const at::Tensor& right) {
  at::Tensor apart = (left - right).abs();
  const at::Tensor same = at::logical_or(left.eq(right), left.isnan().logical_and(right.isnan()));
  apart.masked_fill_(same, 0.0);
  apart.masked_fill_(apart.isnan(), std::numeric_limits<double>::infinity());
  at::Tensor ratio = apart / at::maximum(left.abs(), right.abs());
  ratio.masked_fill_(same, 0.0);
  ratio.masked_fill_(ratio.isnan(), std::numeric_limits<double>::infinity());
  distance.max_abs = std::max(distance.max_abs, apart.max().item<double>());
  distance.relative = std::max(distance.relative, ratio.max().item<double>());
}

}  // namespace

void Distance::add(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || same_bytes(a, b)) return;
  const auto apart = of_narrow<ApartOf, Apart>(a, b);
  if (!apart || !std::isfinite(apart->magnitudes)) {
    add_any(*this, doubles_of(a), doubles_of(b));
    return;
  }
  max_abs = std::max(max_abs, apart->max_abs);
  relative = std::max(relative, apart->relative);
}

void Distance::add(const Distance& other) {
  max_abs = std::max(max_abs, other.max_abs);
  relative = std::max(relative, other.relative);
}

void Change::add(const at::Tensor& a, const at::Tensor& b) {
  if (const auto change = of_narrow<ChangeOf, Change>(a, b)) return add(*change);
  const at::Tensor left = doubles_of(a), right = doubles_of(b);
  add({(right - left).square().sum().item<double>(), left.square().sum().item<double>(),
       (left * right).sum().item<double>(), right.square().sum().item<double>()});
}

void Change::add(const Change& other) {
  moved += other.moved;
  before += other.before;
  dot += other.dot;
  after += other.after;
}

}  // namespace am::values
