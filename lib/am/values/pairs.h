// Compares two tensors of the same shape, one block at a time: the largest differences (Distance),
// and sums that describe how training changed a tensor (Change). Values of all dtypes are compared
// in double; a complex number counts as two values.
//
//   Distance distance;
//   distance.add(a, b);         // for each pair of blocks
//   distance.max_abs; distance.relative;
#pragma once

#include <ATen/core/Tensor.h>

namespace am::values {

// Largest differences between two tensors a and b. Equal infinities count as equal, and so do two
// NaN. The difference is infinite if only one value is NaN, or if infinities differ.
struct Distance {
  double max_abs = 0.0;   // the largest |a - b|
  double relative = 0.0;  // the largest ratio of |a - b| to the larger of |a| and |b|

  void add(const at::Tensor& a, const at::Tensor& b);
  void add(const Distance& other);
};

// Sums over the elements a of a tensor before training and the elements b of the tensor after
// training. A sum is NaN or infinite if one of its terms is.
struct Change {
  double moved = 0.0;   // sum of (b - a)^2
  double before = 0.0;  // sum of a^2
  double dot = 0.0;     // sum of a * b
  double after = 0.0;   // sum of b^2

  void add(const at::Tensor& a, const at::Tensor& b);
  void add(const Change& other);
};

}  // namespace am::values
