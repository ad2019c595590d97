// gpt-oss's gated activation in one pass, forward and backward. Elements of gate and up are
// interleaved:
//
//   y = (u + 1) g sigmoid(alpha g),   g = min(gate, limit),   u = clamp(up, -limit, limit)
//
// Computed in float32 (float64 for float64) and rounded once. Legend: R rows, F feed-forward.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

struct Clamp {
  double alpha = 1.0;
  double limit = 0.0;
};

// Returns y [R, F] for pairs_R2F, in which each gate element is followed by its up element. Builds
// no autograd graph.
at::Tensor clamped(const at::Tensor& pairs_R2F, const Clamp& clamp);

// Returns the gradient of pairs_R2F from gradient_RF, the gradient of y. Builds no autograd graph.
// Elements beyond a limit receive no gradient, as with ATen's clamp.
at::Tensor clamped_gradient(const at::Tensor& gradient_RF, const at::Tensor& pairs_R2F,
                            const Clamp& clamp);

}  // namespace am::nn::fused
