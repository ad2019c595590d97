// Linear layers with a common input, for example queries, keys and values, or gate and up. The
// layers have separate matrices or one fused matrix.
//
//   Tensors qkv = attention.inputs.products(x_BTD, {Recompute::kOutputOnly}, products);
//   qkv = attention.inputs.finish(qkv);   // queries, keys and values: [B, T, heads * head_dim]
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/nn/checkpoint.h"
#include "am/nn/layers.h"

namespace am::nn {

struct Projections {
  std::vector<Linear> linears;

  // Returns the layers' products with x [.., in], before finish(). An input transform that several
  // layers share is applied once. `again` has one recomputation mode per output, or one mode for
  // all outputs. `products`: the tape of the checkpointed segment (checkpoint.h).
  Tensors products(const at::Tensor& x, const std::vector<Recompute>& again,
                   RecomputeTape& products) const;
  // Returns the layers' outputs, which Linear::finish() computes from the result of products(): one
  // output per layer, or one per slice of a fused layer.
  Tensors finish(const Tensors& products) const;
};

}  // namespace am::nn
