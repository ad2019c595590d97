// The layers of a decoder, written for one device.
//
// A layer reads its `Parameter`s at each call; a strategy decides what their values are at that
// moment (a full tensor, a tensor-parallel slice, one that was just gathered). Layers only carry
// the places where a strategy can act: a transform of the input, and one of the output. Legend: B
// batch, T sequence, D hidden, H heads, K head_dim, V vocabulary, F feed-forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/model/spec.h"
#include "am/nn/adapter_dropout.h"

namespace am::nn {

struct Parameter {
  std::string name;  // hub name
  at::Tensor value;
};
using ParameterPtr = std::shared_ptr<Parameter>;

// Shared between layers that take the same transform, so that it runs once for a common input.
using Transform = std::function<at::Tensor(const at::Tensor&)>;
using TransformPtr = std::shared_ptr<const Transform>;

// Adds up numbers over the ranks that have parts of them, in place.
using SumOverRanks = std::function<void(const at::Tensor& numbers)>;

at::Tensor apply_transform(const TransformPtr& transform, const at::Tensor& x);

// What is trained beside a frozen weight: scale * B (A x), x after dropout.
struct Adapter {
  ParameterPtr a;  // [rank, in]
  ParameterPtr b;  // [out, rank]
  double scale = 1.0;
  std::optional<AdapterDropout> dropout = {};
};

struct Linear {
  std::string name;     // module: "model.layers.0.mlp.up_proj"
  ParameterPtr weight;  // [out, in], or [in, out]
  ParameterPtr bias;    // [out], or null
  bool in_out = false;  // how the weight is stored
  // Of a fused matrix, lengths along out: it gives an output for each. Empty: one.
  std::vector<int64_t> slices = {};
  TransformPtr input;
  TransformPtr output;  // before the bias when bias_after_output
  bool bias_after_output = false;
  std::optional<Adapter> adapter = {};  // its part is in the product, before the output transform

  // x_..I -> ..O, its input transform included. For a Linear of one output.
  at::Tensor operator()(const at::Tensor& x) const {
    return finish(product(apply_transform(input, x)));
  }
  // The matrix product of an input that was transformed already, with the bias unless that comes
  // later; and what follows it: the output transform, and a late bias.
  at::Tensor product(const at::Tensor& x) const;
  at::Tensor finish(const at::Tensor& y) const;

  // What `products` gives. A transform of the output takes it whole.
  size_t outputs() const { return slices.empty() || output ? 1 : slices.size(); }
  // The same as product, an output at a time. `known`: empty, or for each output its value where it
  // is known, and so not multiplied out; backward multiplies all the same.
  std::vector<at::Tensor> products(const at::Tensor& x,
                                   const std::vector<at::Tensor>& known = {}) const;

  // The bias that the product adds: none where it comes later.
  std::optional<at::Tensor> added() const;
};

struct Embedding {
  std::string name;
  ParameterPtr weight;                  // [V, D]
  std::optional<int64_t> padding = {};  // the id whose row a look-up gives no gradient
  // Replaces the plain look-up: a vocabulary slice looks up its own ids only.
  std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& weight)> lookup;

  at::Tensor operator()(const at::Tensor& ids) const;
};

// RMSNorm of one of its three kinds, or LayerNorm.
struct Norm {
  std::string name;
  ParameterPtr weight;  // [D]; null: the identity
  double eps = 1e-6;
  model::NormKind kind = model::NormKind::kRms;
  ParameterPtr bias = {};  // [D], of a LayerNorm
  // Of an RMSNorm whose rows lie on several ranks: D is what this one has of `width`, and `sum`
  // adds up a number a row over them, in place, in forward and in backward.
  int64_t width = 0;
  SumOverRanks sum = {};

  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace am::nn
