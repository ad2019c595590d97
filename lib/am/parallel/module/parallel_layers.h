// Subclasses of libtorch's Linear and Embedding that tensor parallelism can shard. Without a
// tensor-parallel plan, they compute the same as torch::nn::Linear and torch::nn::Embedding.
//
//   struct Mlp : torch::nn::Module {
//     at::Tensor forward(const at::Tensor& x) { return down(at::gelu(up(x))); }
//     Linear up = register_module("up", Linear(64, 256));
//     Linear down = register_module("down", Linear(256, 64));
//   };
//   const auto model = std::make_shared<Sharded<Mlp>>();
//   const model::TpPlan plan{.rules = {{"up", TpStyle::kColwise}, {"down", TpStyle::kRowwise}}};
//   ShardedModule sharded(model, mesh, config::FSDP2Config{}, plan);
//
// Under sequence parallelism, activations are sharded on dim 1 between the output of a row-wise
// layer and the input of the next column-wise layer.
#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <optional>

#include "am/layout/layout.h"
#include "am/model/tp_plan.h"
#include "am/runtime/group.h"

namespace am::parallel {

using model::TpStyle;

// Interface of a layer whose parameters tensor parallelism can shard.
class ParallelLayer {
 public:
  virtual ~ParallelLayer() = default;

  struct Style {
    TpStyle style = TpStyle::kColwise;
    const runtime::Group* tp = nullptr;  // null: the layer is not sharded
    bool sequence_parallel = false;
  };
  void set_style(const Style& style) { style_ = style; }
  // Sets in `parameter` how the style shards the layer's parameter `name` ("weight" or "bias") over
  // `tp` ranks. Throws Error(kPlan) if the layer does not support the style, or if the size to be
  // sharded is not divisible by `tp`.
  virtual void place(const Style& style, int64_t tp, layout::ParameterLayout& parameter,
                     std::string_view name) const = 0;

 protected:
  const Style& style() const { return style_; }
  // enter_colwise returns the input of a column-wise layer: x itself. Under sequence parallelism, x
  // is a sequence shard, and enter_colwise gathers the shards of all tp ranks. leave_rowwise
  // returns the output of a row-wise layer: the sum over tp of the partial products y, or under
  // sequence parallelism this rank's shard of the sum.
  at::Tensor enter_colwise(const at::Tensor& x) const;
  at::Tensor leave_rowwise(const at::Tensor& y) const;

 private:
  Style style_;
};

// Supports the styles colwise, colwise_rep, packed_colwise, rowwise and rowwise_rep.
class LinearImpl final : public torch::nn::LinearImpl, public ParallelLayer {
 public:
  // `slices`: number of equal parts of the outputs, for example 3 for fused queries, keys and
  // values. The style packed_colwise shards each part separately.
  LinearImpl(int64_t in_features, int64_t out_features, int64_t slices = 1)
      : LinearImpl(torch::nn::LinearOptions(in_features, out_features), slices) {}
  explicit LinearImpl(const torch::nn::LinearOptions& options, int64_t slices = 1)
      : torch::nn::LinearImpl(options), slices_(slices) {}

  at::Tensor forward(const at::Tensor& x);
  void place(const Style& style, int64_t tp, layout::ParameterLayout& parameter,
             std::string_view name) const override;

 private:
  int64_t slices_;
};
TORCH_MODULE(Linear);

// Supports the styles rowwise and rowwise_rep, which shard the vocabulary.
class EmbeddingImpl final : public torch::nn::EmbeddingImpl, public ParallelLayer {
 public:
  using torch::nn::EmbeddingImpl::EmbeddingImpl;

  at::Tensor forward(const at::Tensor& ids);
  void place(const Style& style, int64_t tp, layout::ParameterLayout& parameter,
             std::string_view name) const override;
};
TORCH_MODULE(Embedding);

}  // namespace am::parallel
