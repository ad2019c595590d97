// Linear layers with a common input, such as queries, keys and values, or gate and up, as separate
// matrices or one fused matrix.
//
//   Tensors qkv = attention.inputs.products(x_BTD, {Recompute::kOutputOnly}, products);
//   qkv = attention.inputs.finish(qkv);   // {q_BTX, k_BTX, v_BTX}
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/nn/checkpoint.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Projections {
  std::vector<Linear> linears;

  // Returns the layers' products of x_..I, before `finish`. An input transform that several layers
  // have in common is applied once. `again` has a recomputation mode per output, or one mode for
  // all outputs.
  Tensors products(const at::Tensor& x, const std::vector<Recompute>& again,
                   RecomputeTape& products) const;
  // Returns the outputs: one per linear layer, or one per slice of a fused layer.
  Tensors finish(const Tensors& products) const;
};

}  // namespace am::nn
