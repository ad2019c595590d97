// Distance between two tensors of one shape, a block at a time; in double, whatever their dtypes.
// Complex numbers count as two.
//
//   Distance distance;
//   distance.add(a, b);         // for each pair of blocks
//   distance.max_abs; distance.relative;
#pragma once

#include <ATen/core/Tensor.h>

namespace am::values {

// Equal infinities, and NaN on both sides, count as equal. If only one side is NaN, or infinities
// differ, the distance is infinite.
struct Distance {
  double max_abs = 0.0;   // |a - b|
  double relative = 0.0;  // |a - b| over the larger of |a| and |b|

  void add(const at::Tensor& a, const at::Tensor& b);
  void add(const Distance& other);
};

// Sums over the elements a and b of two tensors, from before and after training. NaN or infinite if
// a value is.
struct Change {
  double moved = 0.0;   // sum of (b - a)^2
  double before = 0.0;  // sum of a^2
  double dot = 0.0;     // sum of a b
  double after = 0.0;   // sum of b^2

  void add(const at::Tensor& a, const at::Tensor& b);
  void add(const Change& other);
};

}  // namespace am::values
