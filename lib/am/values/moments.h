// Statistics of a tensor. Each rank reads its own shards once and computes their statistics;
// merge() combines the statistics of several shards.
//
// Minimum, maximum, mean, standard deviation and norm are computed over the finite values; NaN and
// infinities are counted. All sums are double.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <limits>

namespace am::values {

// Returns the values as doubles, for statistics. Complex values become their magnitudes.
at::Tensor to_numbers(const at::Tensor& values);

// Number of values that are summed at a time on a device. In double they need 128 MiB. The sums use
// up to nine tensors of this size at once.
inline constexpr int64_t kDeviceBlock = int64_t{1} << 24;

struct Moments {
  int64_t numel = 0;
  int64_t nan = 0;
  int64_t inf = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double mean = 0.0;
  double squared_deviations = 0.0;  // sum of (x - mean)^2
  double squares = 0.0;             // sum of x^2
  double absolutes = 0.0;           // sum of |x|

  int64_t finite() const { return numel - nan - inf; }
  // Returns the unbiased standard deviation, as torch.std does; NaN if fewer than two values are
  // finite.
  double std() const;
  double norm() const;     // 2-norm
  double rms() const;      // root mean square; NaN if no value is finite
  double max_abs() const;  // largest magnitude; NaN if no value is finite

  // Adds the values of a tensor, converted by to_numbers(). Values on a device are summed there, in
  // a different order than values on the host.
  void add(const at::Tensor& values);
  // Merges the moments of another set of values. Mean and squared deviations are updated by the
  // formulas of Chan, Golub and LeVeque.
  void merge(const Moments& other);

  static constexpr int64_t kWords = 9;
  // Returns all fields as doubles, for a collective. Counts below 2^53 stay exact.
  std::array<double, kWords> pack() const;
  static Moments unpack(const double* words);
};

}  // namespace am::values
