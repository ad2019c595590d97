// A user's torch::nn modules train under every data-parallel strategy as on one device.
#include "am/parallel/module/sharded_module.h"

#include <ATen/ATen.h>
#include <torch/nn/modules.h>
#include <torch/optim/sgd.h>

#include <catch2/catch.hpp>
#include <mutex>

#include "am/base/text.h"
#include "am/parallel/sync_ctx.h"
#include "am/runtime/world.h"
#include "support/gpt_module.h"
#include "support/message_of.h"
#include "support/module_cases.h"

namespace am::parallel {

using namespace am::test;

namespace {

struct Trained {
  Named gradients;  // full gradients of the first step
  std::vector<double> losses;
  Named weights;
};

// Trains three steps with SGD; each rank has `micro_batches` micro-batches per step.
Trained train(const runtime::DeviceMesh& mesh, const config::DistributedConfig& strategy,
              int64_t micro_batches = 1) {
  const auto model = make_gpt();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  ShardedModule sharded(model, mesh, strategy);
  const runtime::Group& dp = mesh.group("dp_cp");
  Trained trained;
  for (int64_t step = 0; step < 3; ++step) {
    at::Tensor sum = at::zeros({1}, at::kDouble);
    const auto own = ids_of(step).chunk(dp.size()).at(static_cast<size_t>(dp.index()));
    for (int64_t m = 0; m < micro_batches; ++m) {
      const auto sync = get_sync_ctx(sharded.data_parallel(), strategy, m + 1 == micro_batches);
      const at::Tensor loss =
          loss_of(*model, own.chunk(micro_batches)[static_cast<size_t>(m)].to(mesh.device())) /
          micro_batches;
      loss.backward();
      sum += loss.detach().cpu().to(at::kDouble);
    }
    dp.all_reduce(sum);
    trained.losses.push_back(sum.item<double>() / static_cast<double>(dp.size()));
    if (step == 0) {
      for (const auto& each : sharded.layout().parameters) {
        trained.gradients[each.name] = sharded.full_gradient(each.name).cpu().clone();
      }
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& each : sharded.layout().parameters) {
    trained.weights[each.name] = sharded.full_parameter(each.name).cpu().clone();
  }
  return trained;
}

// Trains the module on one device with PyTorch alone.
Trained train_alone() {
  const auto model = make_gpt();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trained trained;
  for (int64_t step = 0; step < 3; ++step) {
    const at::Tensor loss = loss_of(*model, ids_of(step));
    loss.backward();
    trained.losses.push_back(loss.item<double>());
    for (const auto& each : model->named_parameters()) {
      if (step == 0) trained.gradients[each.key()] = each.value().grad().clone();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& each : model->named_parameters()) {
    trained.weights[each.key()] = each.value().detach().clone();
  }
  return trained;
}

void check(const Trained& got, const Trained& wanted) {
  CHECK(distance(got.gradients, wanted.gradients) < 1e-6);
  CHECK(distance(got.weights, wanted.weights) < 1e-5);
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    CHECK(got.losses.at(i) == Approx(wanted.losses[i]).epsilon(1e-6));
  }
}

Trained run_case(const Case& each) {
  Trained trained;
  std::mutex mutex;
  runtime::run_ranks(each.mesh.world_size(), [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout(each.mesh));
    const Trained own = train(mesh, each.strategy, each.micro_batches);
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) trained = own;
  });
  return trained;
}

}  // namespace

TEST_CASE("a module of libtorch trains under each strategy as alone") {
  const Trained wanted = train_alone();
  for (const Case& each : cases()) {
    DYNAMIC_SECTION(each.name) { check(run_case(each), wanted); }
  }
}

TEST_CASE("units are gathered for forward, again for backward, and reduced one by one") {
  std::vector<std::string> collectives;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2}));
    const auto model = make_gpt();
    const ShardedModule sharded(model, mesh, config::FSDP2Config{});
    if (world.rank() == 0) {
      world.context()->on_collective = [&](const runtime::Collective& collective,
                                           int64_t /*bytes*/) {
        collectives.push_back(collective.op);
      };
    }
    const at::Tensor loss = loss_of(*model, ids_of(0));
    if (world.rank() == 0) collectives.push_back("backward");
    CHECK(model->blocks[0]->parameters().front().size(0) == kWidth / 2);
    CHECK(model->blocks[2]->parameters().front().size(0) ==
          kWidth);  // the last block stays gathered, because backward needs it first
    loss.backward();
    CHECK(model->tokens->weight.size(0) == (kVocab + 1) / 2 - world.rank());
    CHECK(model->tokens->weight.grad().sizes() == model->tokens->weight.sizes());
  });
  CHECK(collectives == std::vector<std::string>{"all_gather", "all_gather", "all_gather",
                                                "all_gather", "backward", "reduce_scatter",
                                                "all_gather", "reduce_scatter", "all_gather",
                                                "reduce_scatter", "reduce_scatter"});
}

TEST_CASE("gradients that the user replaces, zeroes or discards one by one") {
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2}));
    const auto module = make<Layer>();
    config::FSDP2Config full;
    full.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
    ShardedModule sharded(module, mesh, full);
    const auto add = [&] {
      mean_of_squares(module->forward(at::ones({2, kWidth}))).backward();
      return sharded.full_gradient("linear.weight").clone();
    };
    const at::Tensor once = add();
    CHECK(at::allclose(add(), 2 * once));
    at::Tensor& gradient = module->linear->weight.mutable_grad();
    gradient = gradient / 2;
    CHECK(at::allclose(add(), 2 * once));
    module->linear->weight.mutable_grad().zero_();
    CHECK(at::allclose(add(), once));
    module->linear->weight.mutable_grad().reset();
    CHECK(at::allclose(add(), once));
    CHECK(module->linear->bias.grad().defined());
    module->zero_grad();
    CHECK(at::allclose(add(), once));
  });
}

TEST_CASE("dropout draws the same mask when a unit is recomputed") {
  struct Drops : torch::nn::Module {
    Drops() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
    at::Tensor forward(const at::Tensor& x) { return at::dropout(linear(x), 0.5, true); }
    torch::nn::Linear linear;
  };
  struct Whole : torch::nn::Module {
    Whole() : part(register_module("part", std::make_shared<Sharded<Drops>>())) {}
    at::Tensor forward(const at::Tensor& x) { return part->forward(x); }
    std::shared_ptr<Sharded<Drops>> part;
  };
  runtime::run_ranks(1, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({}));
    std::vector<at::Tensor> gradients;
    for (const auto mode :
         {config::ActivationCheckpointing::kOff, config::ActivationCheckpointing::kFull}) {
      config::FSDP2Config strategy;
      strategy.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
      strategy.activation_checkpointing = mode;
      const auto module = make<Sharded<Whole>>();
      ShardedModule sharded(module, mesh, strategy);
      torch::manual_seed(1);
      const at::Tensor loss = mean_of_squares(module->forward(at::ones({64, kWidth})));
      at::rand({1});  // advances the generator between forward and recomputation
      loss.backward();
      gradients.push_back(sharded.full_gradient("part.linear.weight").clone());
    }
    CHECK(at::equal(gradients[0], gradients[1]));
  });
}

TEST_CASE("modules and meshes that cannot be sharded are refused") {
  const auto refused = [](const mesh::MeshSizes& sizes, const config::DistributedConfig& strategy,
                          const std::function<std::shared_ptr<torch::nn::Module>()>& make) {
    std::string message;
    std::mutex mutex;
    runtime::run_ranks(sizes.world_size(), [&](const runtime::World& world) {
      const runtime::DeviceMesh mesh(world, mesh::MeshLayout(sizes));
      const std::string own = message_of([&] { ShardedModule(make(), mesh, strategy); });
      const std::lock_guard lock(mutex);
      message = own;
    });
    return message;
  };
  const auto layer = [] { return std::make_shared<Layer>(); };
  const config::FSDP2Config fsdp2;
  CHECK(refused({.tp = 2}, fsdp2, layer) ==
        "the mesh has tp ranks, but the tensor-parallel plan has no rules");
  CHECK(refused({.cp = 2}, fsdp2, layer) ==
        "a torch module can be parallelized only over dp_replicate, dp_shard and tp");
  CHECK(refused({.dp_shard = 2}, config::DDPConfig{}, layer) ==
        "the strategy shards no parameters, but the mesh has dp_shard ranks");
  CHECK(refused({}, fsdp2, [] { return std::make_shared<LayerImpl>(); }) ==
        "no module around the parameter linear.weight is of type Sharded<M>");
  CHECK_THAT(refused({}, fsdp2, [] { return std::make_shared<torch::nn::ReLUImpl>(); }),
             Catch::Contains("has no parameters"));
  const auto with = [](const at::Tensor& extra) {
    return [extra] {
      auto made = std::make_shared<Layer>();
      made->register_parameter("extra", extra.clone());
      return made;
    };
  };
  CHECK(refused({}, fsdp2, with(at::zeros({}))) ==
        "the parameter extra is a scalar, which has no dimension to shard");
  CHECK(refused({}, fsdp2, with(at::zeros({2}, at::kDouble))) ==
        "the parameter linear.weight has dtype Float, but the first parameter has Double");
  config::FSDP2Config selective;
  selective.activation_checkpointing = config::ActivationCheckpointing::kSelective;
  CHECK(refused({}, selective, layer) ==
        "for a torch module, activation checkpointing recomputes whole units only");
  config::FSDP2Config ignored;
  ignored.ignored_params = {"linear.biass"};
  CHECK(refused({}, ignored, layer) == "no parameter matches \"linear.biass\"");
}

}  // namespace am::parallel
