// The layers of a decoder, written for one device.
//
// A layer reads the values of its `Parameter`s at each call. A parallel strategy sets these values
// before the call: a full tensor, a tensor-parallel slice, or a gathered tensor. A strategy may
// also set a transform of the layer's input and a transform of the layer's output. Legend: B batch,
// T sequence, D hidden, H heads, K head_dim, V vocabulary, F feed-forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/model/spec.h"
#include "am/nn/adapter_dropout.h"
#include "am/nn/fused/linear.h"

namespace am::nn {

struct Parameter {
  std::string name;  // name on the Hugging Face hub
  at::Tensor value;
};
using ParameterPtr = std::shared_ptr<Parameter>;

// A function of a tensor, which a parallel strategy sets. Layers with a common input share one
// Transform object, so that Projections applies the transform once.
using Transform = std::function<at::Tensor(const at::Tensor&)>;
using TransformPtr = std::shared_ptr<const Transform>;

// Sums a tensor in place over the ranks that hold partial sums.
using SumOverRanks = std::function<void(const at::Tensor& numbers)>;

at::Tensor apply_transform(const TransformPtr& transform, const at::Tensor& x);

// Low-rank adapter of a frozen weight (LoRA): adds scale * B (A x) to the product, with dropout on
// the adapter's x. With DoRA, each output is then multiplied by a trained magnitude and divided by
// the norm of its weight row (model/lora.h).
struct Adapter {
  ParameterPtr a;  // [rank, in]
  ParameterPtr b;  // [out, rank]
  double scale = 1.0;
  std::optional<AdapterDropout> dropout = {};
  ParameterPtr magnitude = {};  // [out], or null
  // If the weight is sharded along `in`: sums DoRA's squared norms of weight rows over the ranks
  // with the shards. Empty otherwise.
  SumOverRanks sum = {};
};

struct Linear {
  std::string name;          // name of the module, for example "model.layers.0.mlp.up_proj"
  ParameterPtr weight;       // [out, in], or [in, out]
  ParameterPtr bias;         // [out], or null
  bool in_out = false;       // the weight is stored as [in, out]
  bool fp8_allowed = false;  // model::multiplies_in_fp8 for this module
  // FP8 recipe of the products with the weight; null: they are in the dtype of x. The adapter's
  // products are never in FP8.
  std::shared_ptr<const fused::Fp8> fp8 = {};
  // For a fused matrix, the length of each output along `out`. Empty if there is one output.
  std::vector<int64_t> slices = {};
  TransformPtr input;
  TransformPtr output;  // runs before the bias is added if bias_after_output is true
  bool bias_after_output = false;
  // LoRA adapter; its term is added to the product before the output transform.
  std::optional<Adapter> adapter = {};

  // Applies the input transform, product() and finish() to x [.., in]. Requires a single output.
  at::Tensor operator()(const at::Tensor& x) const {
    return finish(product(apply_transform(input, x)));
  }
  // product() multiplies a transformed input x by the weight, applies the adapter, and adds the
  // bias unless bias_after_output is true. finish() applies the output transform to y, and then
  // adds the bias if bias_after_output is true.
  at::Tensor product(const at::Tensor& x) const;
  at::Tensor finish(const at::Tensor& y) const;

  // Applies DoRA's scaling to `outputs`, the outputs of the product plus the low-rank term, and
  // adds the bias. `lengths`: length of each output.
  std::vector<at::Tensor> with_magnitudes(std::vector<at::Tensor> outputs,
                                          const std::vector<int64_t>& lengths) const;
  // Returns the number of outputs of products(). A product with an output transform is not split.
  size_t outputs() const { return slices.empty() || output ? 1 : slices.size(); }
  // Returns the result of product(), split into outputs(). `known` is empty or has one tensor per
  // output: the output's value if that is known, or an undefined tensor if the output is to be
  // computed. The gradients do not depend on `known`.
  std::vector<at::Tensor> products(const at::Tensor& x,
                                   const std::vector<at::Tensor>& known = {}) const;

  fused::WeightForm form() const { return {in_out, fp8.get()}; }
  // Returns the bias if product() adds it. Empty if finish() adds the bias, or if there is no bias.
  std::optional<at::Tensor> added() const;
};

struct Embedding {
  std::string name;
  ParameterPtr weight;                  // [V, D]
  std::optional<int64_t> padding = {};  // token id whose row receives no gradient
  // If set, replaces the plain look-up. A strategy that shards the vocabulary sets a function that
  // looks up only the ids in this rank's slice.
  std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& weight)> lookup;

  at::Tensor operator()(const at::Tensor& ids) const;
};

// An RMSNorm of one of three kinds, or a LayerNorm.
struct Norm {
  std::string name;
  ParameterPtr weight;  // [D]; null: the norm is the identity
  double eps = 1e-6;
  model::NormKind kind = model::NormKind::kRms;
  ParameterPtr bias = {};  // [D], only for a LayerNorm
  // Set for an RMSNorm whose rows are sharded over ranks. `width` is the number of elements of a
  // whole row, and D is this rank's part of `width`. `sum` sums one number per row over the ranks,
  // in forward and in backward. For other norms, `width` is 0 and `sum` is empty.
  int64_t width = 0;
  SumOverRanks sum = {};

  at::Tensor operator()(const at::Tensor& x) const;
  // Returns {x + added, the norm of this sum}. If the norm is an RMSNorm whose rows are not
  // sharded, and if there is a GPU kernel, the kernel computes both results in one pass
  // (fused::normed_sum).
  std::pair<at::Tensor, at::Tensor> of_sum(const at::Tensor& x, at::Tensor added) const;
};

}  // namespace am::nn
