// Look-up of table rows: at::embedding, with a gradient that a weight pass may postpone
// (weight_pass.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Returns the rows [.., D] of weight_VD at `ids`, with V ids and D elements per row. `padding` is
// an id whose row receives no gradient, or -1. Bitwise equal to at::embedding, forward and
// backward.
at::Tensor look_up(const at::Tensor& weight_VD, const at::Tensor& ids, int64_t padding = -1);

}  // namespace am::nn::fused
