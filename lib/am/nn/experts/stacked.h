// Experts whose matrices are stacked in one tensor per projection, stored [E, in, out], with
// biases; elements of gate and up are interleaved (gpt-oss).
//
// Forward and backward read an expert's matrix as a view of the stacked tensor, without a copy.
// Backward writes the expert's gradient in place into the stacked gradient: zeros if no token was
// routed to the expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/nn/fused/clamped.h"
#include "am/nn/layers.h"

namespace am::nn {

struct StackedExperts {
  Linear gate_up;  // weight [E, D, 2F], bias [E, 2F]
  Linear down;     // weight [E, F, D], bias [E, D]
  fused::Clamp clamp;

  // Returns each expert's output [R_e, D] for its rows [R_e, D] and their weights, [R_e] in float32
  // or wider. Keeps rows, gate and up, and weights, like separate experts (weighed_down.h); gate
  // and up are one product, which a recomputed segment computes again. `unread` is described in
  // weighed_down.h.
  std::vector<at::Tensor> products(const std::vector<at::Tensor>& rows,
                                   const std::vector<at::Tensor>& weights, bool unread) const;
};

}  // namespace am::nn
