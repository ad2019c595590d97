// ATen's LayerNorm, also of tensors without contents: libtorch has no kernel of it for the device
// "meta", on which a dry run's tensors are.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace am::nn::fused {

// x_..D, weight_D, shift_D -> ..D.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& shift, double eps);

}  // namespace am::nn::fused
