// Experts whose matrices are stacked in one tensor per projection. gpt-oss stores [E, in, out],
// has biases, and interleaves the elements of gate and up. Granite MoE stores [E, out, in], has no
// biases, and the rows of gate precede those of up.
//
// Forward and backward read an expert's matrix as a view of the stacked tensor, without a copy.
// Backward writes the expert's gradient in place into the stacked gradient: zeros if no token was
// routed to the expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/model/spec.h"
#include "am/nn/fused/clamped.h"
#include "am/nn/layers.h"

namespace am::nn {

struct StackedExperts {
  // Weights [E, D, 2F] and [E, F, D] if in_out is set, otherwise [E, 2F, D] and [E, D, F]; biases
  // [E, 2F] and [E, D], or none.
  Linear gate_up;
  Linear down;
  fused::Clamp clamp;  // for kClampedSilu
  // kClampedSilu, with interleaved elements of gate and up, or an activation of gated.h.
  model::Activation activation = model::Activation::kClampedSilu;

  // Returns each expert's output [R_e, D] for its rows [R_e, D] and their weights, [R_e] in float32
  // or wider. Keeps rows, gate and up, and weights, like separate experts (weighed_down.h). One
  // operator returns both gate and up, so a recomputed segment computes both again. `unread` is
  // described in weighed_down.h.
  std::vector<at::Tensor> products(const std::vector<at::Tensor>& rows,
                                   const std::vector<at::Tensor>& weights, bool unread) const;
};

}  // namespace am::nn
