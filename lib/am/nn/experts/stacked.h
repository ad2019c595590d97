// Experts whose matrices are stacked in one tensor per projection. In gpt-oss, there are biases,
// the tensors are [E, in, out], and the elements of gate and up are interleaved. In Granite MoE,
// there are no biases, the tensors are [E, out, in], and the rows of gate precede those of up.
//
// Forward and backward read an expert's matrix as a view of the stacked tensor, without a copy.
// Backward writes the expert's gradient in place into the stacked gradient: zeros if no token was
// routed to the expert. Legend: E experts of this rank, D hidden, F feed-forward, R_e rows of
// expert e.
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
  // kClampedSilu, with interleaved elements of gate and up; or an activation of gated.h, with gate
  // before up.
  model::Activation activation = model::Activation::kClampedSilu;

  // Returns each expert's output [R_e, D] for its rows [R_e, D], multiplied by the rows' routing
  // weights, [R_e] in float32 or wider. Keeps rows, gate and up, and weights until backward, like
  // separate experts (weighed_down.h). One operator returns both gate and up, so a recomputed
  // segment computes both again. `unread` is described in weighed_down.h.
  std::vector<at::Tensor> products(const std::vector<at::Tensor>& rows,
                                   const std::vector<at::Tensor>& weights, bool unread) const;
};

}  // namespace am::nn
