#include "am/values/moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace am::values {
namespace {

// Elements that are turned to double at once: 8 MiB.
constexpr int64_t kBlock = int64_t{1} << 20;

// Sums run side by side, for each waits for its last addition.
constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

double total(const Lanes& lanes) { return std::accumulate(lanes.begin(), lanes.end(), 0.0); }

// In two passes over a block that lies in the cache by the second; values that are not finite spoil
// the sum of magnitudes, which says so.
template <typename T>
Moments of_finite(const T* values, size_t count) {
  Lanes sum = {}, squares = {}, absolutes = {}, deviations = {};
  Lanes min, max;
  min.fill(static_cast<double>(values[0]));
  max = min;
  const size_t even = count / kLanes * kLanes;
  const auto take = [&](size_t lane, double x) {
    sum[lane] += x;
    squares[lane] += x * x;
    absolutes[lane] += std::abs(x);
    min[lane] = x < min[lane] ? x : min[lane];
    max[lane] = x > max[lane] ? x : max[lane];
  };
  for (size_t i = 0; i < even; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, static_cast<double>(values[i + lane]));
  }
  for (size_t i = even; i < count; ++i) take(i - even, static_cast<double>(values[i]));
  Moments result;
  result.numel = static_cast<int64_t>(count);
  result.mean = total(sum) / static_cast<double>(count);
  const auto deviate = [&](size_t lane, double x) {
    deviations[lane] += (x - result.mean) * (x - result.mean);
  };
  for (size_t i = 0; i < even; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      deviate(lane, static_cast<double>(values[i + lane]));
    }
  }
  for (size_t i = even; i < count; ++i) deviate(i - even, static_cast<double>(values[i]));
  result.squared_deviations = total(deviations);
  result.squares = total(squares);
  result.absolutes = total(absolutes);
  result.min = *std::min_element(min.begin(), min.end());
  result.max = *std::max_element(max.begin(), max.end());
  return result;
}

// float32 holds what is narrower.
bool is_narrow(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
}

Moments of_block(const at::Tensor& block) {
  if (is_narrow(block.scalar_type()) && block.device().is_cpu() && block.numel() > 0) {
    const at::Tensor values = block.to(at::kFloat).contiguous();
    const Moments found =
        of_finite(values.const_data_ptr<float>(), static_cast<size_t>(values.numel()));
    if (std::isfinite(found.absolutes)) return found;
  }
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

void Moments::add(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = tensor.reshape({-1});
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
