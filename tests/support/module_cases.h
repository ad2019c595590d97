// Meshes and strategies under which tests shard modules of libtorch, and helpers of these tests.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/config/strategy_config.h"
#include "am/mesh/layout.h"
#include "support/gpt_module.h"

namespace am::test {

using Named = std::map<std::string, at::Tensor>;

inline double distance(const Named& got, const Named& wanted) {
  REQUIRE(got.size() == wanted.size());
  double worst = 0.0;
  for (const auto& [name, tensor] : wanted) {
    INFO(name);
    REQUIRE(got.at(name).sizes() == tensor.sizes());
    worst =
        std::max(worst, ((got.at(name) - tensor).norm() / (tensor.norm() + 1e-12)).item<double>());
  }
  return worst;
}

struct Case {
  std::string name;
  mesh::MeshSizes mesh;
  config::DistributedConfig strategy;
  int64_t micro_batches = 1;
};

inline std::vector<Case> cases() {
  config::FSDP2Config full;
  full.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
  config::FSDP2Config recomputed = full;
  recomputed.activation_checkpointing = config::ActivationCheckpointing::kFull;
  config::FSDP2Config kept = full;
  kept.reshard_after_forward = false;
  config::FSDP2Config every = full;
  every.defer_fsdp_grad_sync = false;
  std::vector<Case> all = {
      {"fsdp2 1", {}, full},
      {"fsdp2 3", {.dp_shard = 3}, full},
      {"fsdp2 2, 2 micro-batches", {.dp_shard = 2}, full, 2},
      {"fsdp2 2, reduced each time", {.dp_shard = 2}, every, 3},
      {"fsdp2 2, kept after forward", {.dp_shard = 2}, kept},
      {"fsdp2 2, recomputed", {.dp_shard = 2}, recomputed},
      {"hsdp 2 x 2", {.dp_replicate = 2, .dp_shard = 2}, full, 3},
      {"ddp 2", {.dp_replicate = 2}, config::DDPConfig{}, 2},
      {"ddp 3, small buckets", {.dp_replicate = 3}, config::DDPConfig{.bucket_cap_mb = 0}},
  };
  for (int64_t level = 0; level <= 3; ++level) {
    config::MegatronFSDPConfig megatron;
    megatron.zero_dp_strategy = level;
    all.push_back({cat("megatron_fsdp ", level),
                   level == 0 ? mesh::MeshSizes{.dp_replicate = 2} : mesh::MeshSizes{.dp_shard = 2},
                   megatron, 2});
  }
  return all;
}

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
  torch::nn::Linear linear;
};
using Layer = Sharded<LayerImpl>;

inline at::Tensor mean_of_squares(const at::Tensor& x) { return x.square().mean(); }

}  // namespace am::test
