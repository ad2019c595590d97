#include "am/values/pairs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>

namespace am::values {
namespace {

// Pairs that are looked at side by side: one loop over them becomes vector instructions.
constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

double total(const Lanes& lanes) { return std::accumulate(lanes.begin(), lanes.end(), 0.0); }

at::Tensor doubles_of(const at::Tensor& values) {
  return (values.is_complex() ? at::view_as_real(values) : values).to(at::kDouble);
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_contiguous() && b.is_contiguous() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// float32 holds what is narrower.
bool is_narrow(const at::Tensor& values) {
  const at::ScalarType dtype = values.scalar_type();
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
}

// Calls `visit(lane, a, b)` for all pairs, in double; false: they are not narrow, and it was not.
template <typename Visit>
bool for_each_narrow(const at::Tensor& a, const at::Tensor& b, const Visit& visit) {
  if (!is_narrow(a) || !is_narrow(b) || !a.is_cpu() || !b.is_cpu()) return false;
  const at::Tensor left = a.to(at::kFloat).contiguous(), right = b.to(at::kFloat).contiguous();
  const auto* x = left.const_data_ptr<float>();
  const auto* y = right.const_data_ptr<float>();
  const auto count = static_cast<size_t>(left.numel());
  const size_t even = count / kLanes * kLanes;
  for (size_t i = 0; i < even; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      visit(lane, static_cast<double>(x[i + lane]), static_cast<double>(y[i + lane]));
    }
  }
  for (size_t i = even; i < count; ++i) {
    visit(i - even, static_cast<double>(x[i]), static_cast<double>(y[i]));
  }
  return true;
}

double largest(const Lanes& lanes) { return *std::max_element(lanes.begin(), lanes.end()); }

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
  Lanes apart = {}, ratio = {}, magnitudes = {};
  const bool done = for_each_narrow(a, b, [&](size_t lane, double x, double y) {
    const double difference = std::abs(x - y);
    const double larger = std::max(std::abs(x), std::abs(y));
    // Of two zeros the ratio is 0 over the least there is.
    const double share = difference / std::max(larger, std::numeric_limits<double>::min());
    apart[lane] = difference > apart[lane] ? difference : apart[lane];
    ratio[lane] = share > ratio[lane] ? share : ratio[lane];
    magnitudes[lane] += std::abs(x) + std::abs(y);
  });
  // Values that are not finite spoil the sum of magnitudes, which says so.
  if (!done || !std::isfinite(total(magnitudes))) {
    add_any(*this, doubles_of(a), doubles_of(b));
    return;
  }
  max_abs = std::max(max_abs, largest(apart));
  relative = std::max(relative, largest(ratio));
}

void Change::add(const at::Tensor& a, const at::Tensor& b) {
  Lanes moves = {}, squares = {}, products = {}, squares_after = {};
  const bool done = for_each_narrow(a, b, [&](size_t lane, double x, double y) {
    moves[lane] += (y - x) * (y - x);
    squares[lane] += x * x;
    products[lane] += x * y;
    squares_after[lane] += y * y;
  });
  if (done) {
    add({total(moves), total(squares), total(products), total(squares_after)});
    return;
  }
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
