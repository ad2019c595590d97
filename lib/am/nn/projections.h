// Linear layers that read one input: queries, keys and values; gate and up. They may be several
// matrices, or one that has them one after the other.
//
//   Tensors qkv = attention.inputs.products(x_BTD, Again::kReturned, products);
//   qkv = attention.inputs.finish(qkv);   // {q_BTX, k_BTX, v_BTX}
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/nn/checkpoint.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Projections {
  std::vector<Linear> linears;

  // x_..I, each layer's input transform included (which runs once where they share it) -> what
  // their products give, before `finish`. `again`: of each output; of all where it is one.
  Tensors products(const at::Tensor& x, const std::vector<Again>& again, Products& products) const;
  // An output for each layer, and for each slice of a fused one.
  Tensors finish(const Tensors& products) const;
};

}  // namespace am::nn
