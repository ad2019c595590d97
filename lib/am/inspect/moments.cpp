#include "am/inspect/moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace am::inspect {
namespace {

// Elements that are turned to double at once: 8 MiB.
constexpr int64_t kBlock = int64_t{1} << 20;

Moments of_block(const at::Tensor& block) {
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

}  // namespace am::inspect
