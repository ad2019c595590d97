// gpt-oss's gated activation in one pass, forward and backward. Gate and up are neighbours:
//
//   y = (u + 1) g sigmoid(alpha g),   g = min(gate, limit),   u = up within [-limit, limit]
//
// Computed in float32 (float64 for float64) and rounded once.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

struct Clamp {
  double alpha = 1.0;
  double limit = 0.0;
};

// pairs_R2F, an element of the gate before its element of up -> RF; no graph.
at::Tensor clamped(const at::Tensor& pairs_R2F, const Clamp& clamp);

// gradient_RF of that value -> R2F; no graph. What a limit cuts off has none, as under ATen's
// clamp.
at::Tensor clamped_gradient(const at::Tensor& gradient_RF, const at::Tensor& pairs_R2F,
                            const Clamp& clamp);

}  // namespace am::nn::fused
