// The layers of a decoder, written for one device.
//
// A layer reads its `Parameter`s at each call; a strategy decides what their values are at that
// moment (a full tensor, a tensor-parallel slice, one that was just gathered). Layers only carry
// the places where a strategy can act: a transform of the input, and one of the output. Legend: B
// batch, T sequence, D hidden, H heads, K head_dim, V vocabulary, F feed-forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "am/model/spec.h"

namespace am::nn {

struct Parameter {
  std::string name;  // hub name
  at::Tensor value;
};
using ParameterPtr = std::shared_ptr<Parameter>;

// Shared between layers that take the same transform, so that it runs once for a common input.
using Transform = std::function<at::Tensor(const at::Tensor&)>;
using TransformPtr = std::shared_ptr<const Transform>;

at::Tensor apply_transform(const TransformPtr& transform, const at::Tensor& x);

struct Linear {
  std::string name;     // module: "model.layers.0.mlp.up_proj"
  ParameterPtr weight;  // [out, in]
  ParameterPtr bias;    // [out], or null
  TransformPtr input;
  TransformPtr output;  // before the bias when bias_after_output
  bool bias_after_output = false;

  // x_..I -> ..O, its input transform included.
  at::Tensor operator()(const at::Tensor& x) const { return apply_to(apply_transform(input, x)); }
  // The same for an input that was transformed already: the matrix product, and what follows it.
  at::Tensor apply_to(const at::Tensor& x) const { return finish(product(x)); }
  at::Tensor product(const at::Tensor& x) const;  // with the bias, unless that comes later
  at::Tensor finish(const at::Tensor& y) const;   // the output transform, and a late bias
};

// The common input of several layers through each one's input transform, which runs once where they
// share it.
std::vector<at::Tensor> fan_out(const at::Tensor& x, std::initializer_list<const Linear*> layers);

struct Embedding {
  std::string name;
  ParameterPtr weight;  // [V, D]
  // Replaces the plain look-up: a vocabulary slice looks up its own ids only.
  std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& weight)> lookup;

  at::Tensor operator()(const at::Tensor& ids) const;
};

// RMSNorm, of one of its three kinds (not kLayer).
struct Norm {
  std::string name;
  ParameterPtr weight;  // [D]; null: the identity
  double eps = 1e-6;
  model::NormKind kind = model::NormKind::kRms;

  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace am::nn
