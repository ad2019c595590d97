// Experts whose matrices lie one after the other in one tensor each, stored [E, in, out], with
// biases; gate and up are neighbours in theirs (gpt-oss).
//
// An expert multiplies with its own part of the tensor where it lies, forward and backward: nothing
// is copied out of it, and its gradient is made in place in the one gradient of all, zeros where no
// token took the expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/nn/fused/clamped.h"
#include "am/nn/layers.h"

namespace am::nn {

struct StackedExperts {
  Linear gate_up;  // [E, D, 2F]; [E, 2F]
  Linear down;     // [E, F, D]; [E, D]
  fused::Clamp clamp;

  // Of each expert rows [R_e, D] and what each of them is weighed with, [R_e] in float32 or wider
  // -> [R_e, D]. Keeps rows, gate and up, and weights, as experts of their own do
  // (weighed_down.h); gate and up as one, which a segment's second run multiplies again. `unread`:
  // as there.
  std::vector<at::Tensor> products(const std::vector<at::Tensor>& rows,
                                   const std::vector<at::Tensor>& weights, bool unread) const;
};

}  // namespace am::nn
