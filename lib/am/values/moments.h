// What `stats` says about a tensor, gathered in one pass and mergeable: each rank looks at its own
// shard only.
//
// Minimum, maximum, mean, standard deviation and norm are those of the finite values; NaN and
// infinities are counted. All sums run in double.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <limits>

namespace am::values {

// The numbers that statistics are of, in double: the values, of complex ones their magnitudes.
at::Tensor to_numbers(const at::Tensor& values);

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
  // torch.std: unbiased. NaN where fewer than two values are finite.
  double std() const;
  double norm() const;
  double rms() const;      // NaN where nothing is finite
  double max_abs() const;  // the same

  // Adds a tensor's values (to_numbers).
  void add(const at::Tensor& tensor);
  // Chan, Golub and LeVeque's update of mean and squared deviations.
  void merge(const Moments& other);

  static constexpr int64_t kWords = 9;
  // For a collective: counts as doubles, exact below 2^53.
  std::array<double, kWords> pack() const;
  static Moments unpack(const double* words);
};

}  // namespace am::values
