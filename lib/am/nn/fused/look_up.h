// Rows of a table, by number: at::embedding, whose gradient a pass may postpone (weight_pass.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// ids_.. -> rows ..D of weight_VD. `padding`: the id whose row gets no gradient; -1: none. The bits
// of at::embedding, forward and backward.
at::Tensor look_up(const at::Tensor& weight_VD, const at::Tensor& ids, int64_t padding = -1);

}  // namespace am::nn::fused
