// A small GPT that consists of libtorch's modules, as a user would write it.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "am/parallel/module/sharded.h"

namespace am::test {

using parallel::Sharded;

inline constexpr int64_t kVocab = 23, kWidth = 12, kHeads = 3, kLength = 7, kBatch = 12;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width)
      : norm_1(
            register_module("norm_1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        norm_2(
            register_module("norm_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", torch::nn::Linear(width, 3 * width))),
        out(register_module("out", torch::nn::Linear(width, width))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}

  at::Tensor forward(at::Tensor x) {
    const auto heads = qkv(norm_1(x)).unflatten(-1, {3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    const at::Tensor mixed =
        at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0, /*is_causal=*/true);
    x = x + out(mixed.transpose(1, 2).flatten(2));
    return x + down(at::gelu(up(norm_2(x))));
  }

  torch::nn::LayerNorm norm_1, norm_2;
  torch::nn::Linear qkv, out, up, down;
};

using Block = Sharded<BlockImpl>;

struct GptImpl : torch::nn::Module {
  explicit GptImpl(int64_t layers)
      : tokens(register_module("tokens", torch::nn::Embedding(kVocab, kWidth))),
        positions(register_parameter("positions", at::randn({kLength, kWidth}))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))) {
    for (int64_t i = 0; i < layers; ++i) blocks->push_back(std::make_shared<Block>(kWidth));
  }

  // The head is tied to the embedding.
  at::Tensor forward(const at::Tensor& ids) {
    at::Tensor x = tokens(ids) + positions;
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return at::linear(norm(x), tokens->weight);
  }

  torch::nn::Embedding tokens;
  at::Tensor positions;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm;
};

using Gpt = Sharded<GptImpl>;

// Creates a module with the same initial values on every rank. The lock is needed because ranks are
// threads that share PyTorch's default generator.
template <class M, typename... Args>
std::shared_ptr<M> make(Args... args) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(0);
  return std::make_shared<M>(args...);
}

inline std::shared_ptr<Gpt> make_gpt() { return make<Gpt>(3); }

inline at::Tensor ids_of(int64_t step) {
  return (at::arange(kBatch * (kLength + 1)) * (7 + step)).remainder(kVocab).view({kBatch, -1});
}

inline at::Tensor loss_of(Gpt& model, const at::Tensor& ids) {
  const at::Tensor logits = model.forward(ids.narrow(1, 0, kLength));
  return at::cross_entropy_loss(logits.flatten(0, 1), ids.narrow(1, 1, kLength).flatten());
}

}  // namespace am::test
