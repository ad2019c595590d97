// Tests checkpoints of a user's module and its torch::optim optimizer.
#include "am/checkpoint/module_checkpoint.h"

#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/formats/dcp_metadata.h"
#include "am/optim/clip.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/runtime/world.h"
#include "am/stored/dcp_source.h"
#include "support/gpt_module.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {

using namespace am::test;

namespace {

namespace fs = std::filesystem;

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::AdamW>(
      std::move(parameters), torch::optim::AdamWOptions(1e-2).eps(1e-3).amsgrad(true));
}

std::unique_ptr<torch::optim::Optimizer> momentum(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.1).momentum(0.9));
}

struct Where {
  mesh::MeshSizes mesh;
  config::DistributedConfig strategy;
};

config::FSDP2Config fsdp2() {
  config::FSDP2Config strategy;
  strategy.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
  return strategy;
}

// Trains from step `begin` to step `end` with clipped gradients, and returns the losses. Loads the
// checkpoint `from` of step `begin` before training, and saves to `to` after training; either path
// may be empty.
std::vector<double> train(const Where& where, const MakeOptimizer& make, int64_t begin, int64_t end,
                          const fs::path& from, const fs::path& to) {
  std::vector<double> losses;
  runtime::run_ranks(where.mesh.world_size(), [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout(where.mesh));
    const auto model = make_gpt();
    model->register_buffer("calls", at::full({2}, -1.0));
    parallel::ShardedModule sharded(model, mesh, where.strategy);
    const auto optimizer = make(model->parameters());
    if (!from.empty()) {
      CHECK(load_module(from, sharded, *optimizer) == begin);
      CHECK(model->named_buffers()["calls"][0].item<double>() == static_cast<double>(begin));
    }
    const runtime::Group& dp = mesh.group("dp_cp");
    for (int64_t step = begin; step < end; ++step) {
      const at::Tensor loss =
          loss_of(*model, ids_of(step).chunk(dp.size()).at(static_cast<size_t>(dp.index())));
      loss.backward();
      optim::clip_grad_norm(sharded, 0.5);
      optimizer->step();
      optimizer->zero_grad();
      at::Tensor sum = loss.detach().to(at::kDouble).reshape({1});
      dp.all_reduce(sum);
      if (world.rank() == 0) losses.push_back(sum.item<double>() / static_cast<double>(dp.size()));
    }
    model->named_buffers()["calls"].fill_(static_cast<double>(end));
    if (!to.empty()) save_module(to, sharded, *optimizer, end);
  });
  return losses;
}

}  // namespace

TEST_CASE("a module's checkpoint is continued under every strategy") {
  const MakeOptimizer make = GENERATE(adamw, momentum);
  const TemporaryFolder folder;
  const std::vector<double> whole = train({{}, fsdp2()}, make, 0, 6, {}, {});
  const std::vector<double> first =
      train({{.dp_shard = 3}, fsdp2()}, make, 0, 3, {}, folder.path() / "step-3");
  config::MegatronFSDPConfig level_1, level_3;
  level_1.zero_dp_strategy = 1;
  const std::vector<Where> all = {{{}, fsdp2()},
                                  {{.dp_shard = 2}, fsdp2()},
                                  {{.dp_replicate = 2, .dp_shard = 2}, fsdp2()},
                                  {{.dp_replicate = 2}, config::DDPConfig{}},
                                  {{.dp_shard = 2}, level_1},
                                  {{.dp_shard = 4}, level_3}};
  for (const Where& where : all) {
    const std::vector<double> rest = train(where, make, 3, 6, folder.path() / "step-3", {});
    for (size_t i = 0; i < 3; ++i) {
      CHECK(first[i] == Approx(whole[i]).epsilon(1e-5));
      CHECK(rest.at(i) == Approx(whole[i + 3]).epsilon(1e-5));
    }
  }
}

TEST_CASE("PyTorch's metadata of a module's checkpoint") {
  const TemporaryFolder folder;
  const fs::path step = folder.path() / "step-2";
  train({{.dp_shard = 2}, fsdp2()}, adamw, 0, 2, {}, step);
  CHECK_FALSE(fs::exists(step / "config.json"));
  const auto source = stored::open_dcp_source(step);
  CHECK(read_all(*source, "tokens.weight").sizes() == at::IntArrayRef({kVocab, kWidth}));
  CHECK(read_all(*source, "calls").equal(at::full({2}, 2.0)));
  CHECK(read_all(*source, "optim.state.blocks.0.qkv.weight.exp_avg_sq").min().item<float>() >= 0);
}

TEST_CASE("checkpoints of another module or optimizer are refused") {
  const TemporaryFolder folder;
  const fs::path step = folder.path() / "step-1";
  train({{.dp_shard = 2}, fsdp2()}, adamw, 0, 1, {}, step);
  runtime::run_ranks(1, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({}));
    const auto other = make<Gpt>(2);
    other->register_buffer("calls", at::zeros({3}));
    parallel::ShardedModule sharded(other, mesh, fsdp2());
    const auto optimizer = adamw(other->parameters());
    const std::string message = message_of([&] { load_module(step, sharded, *optimizer); });
    CHECK_THAT(message, Catch::Contains("calls is [2] in the checkpoint, and [3] in the module"));
    CHECK_THAT(message, Catch::Contains("the module lacks blocks.2.down.bias"));
    torch::optim::Adagrad adagrad(other->parameters());
    CHECK_THAT(message_of([&] { save_module(step, sharded, adagrad, 1); }),
               Catch::Contains("do not support this type of optimizer"));
    CHECK_THAT(message_of([&] { load_module(folder.path() / "step-9", sharded, *optimizer); }),
               Catch::Contains("step-9"));
  });
}

}  // namespace am::checkpoint
