// ATen's LayerNorm, with a fallback for the meta device (used by dry runs), for which libtorch has
// no kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace am::nn::fused {

// Returns the LayerNorm of x_..D, [.., D], with the factors weight_D and, if there is one, the bias
// shift_D.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& shift, double eps);

}  // namespace am::nn::fused
