// A user's torch::nn modules under every data-parallel strategy.
#include "am/parallel/module/sharded_module.h"

#include <ATen/ATen.h>
#include <torch/nn/modules.h>
#include <torch/optim/sgd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "am/base/text.h"
#include "am/optim/clip.h"
#include "am/parallel/sync_ctx.h"
#include "am/runtime/world.h"
#include "support/gpt_module.h"
#include "support/message_of.h"

namespace am::parallel {

using namespace am::test;

namespace {

using Named = std::map<std::string, at::Tensor>;

struct Trained {
  Named gradients;  // of the first step, full
  std::vector<double> losses;
  Named weights;
};

// Three steps of SGD, `micro_batches` for each rank and step.
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

// The module as PyTorch trains it on one device.
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

double distance(const Named& got, const Named& wanted) {
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

std::vector<Case> cases() {
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
    CHECK(model->blocks[2]->parameters().front().size(0) == kWidth);  // backward needs it first
    loss.backward();
    CHECK(model->tokens->weight.size(0) == (kVocab + 1) / 2 - world.rank());
    CHECK(model->tokens->weight.grad().sizes() == model->tokens->weight.sizes());
  });
  CHECK(collectives == std::vector<std::string>{"all_gather", "all_gather", "all_gather",
                                                "all_gather", "backward", "reduce_scatter",
                                                "all_gather", "reduce_scatter", "all_gather",
                                                "reduce_scatter", "reduce_scatter"});
}

namespace {

// One step of an odd module under fsdp2, megatron_fsdp and ddp gives the gradients of one device.
// `loss` returns the mean over a batch of rows of [n, kWidth].
template <class M, typename Loss>
void check_gradients(const Loss& loss, const std::set<std::string>& without_gradient = {}) {
  const auto batch_of = [](int64_t rank, int64_t ranks) {
    return at::arange(kBatch * kWidth, at::kFloat)
        .sin()
        .view({kBatch, kWidth})
        .chunk(ranks)
        .at(static_cast<size_t>(rank));
  };
  const auto alone = make<M>();
  loss(*alone, batch_of(0, 1)).backward();
  for (const Case& each : cases()) {
    if (each.micro_batches > 1) continue;
    INFO(each.name);
    const int64_t ranks = each.mesh.world_size();
    std::mutex mutex;
    runtime::run_ranks(ranks, [&](const runtime::World& world) {
      const runtime::DeviceMesh mesh(world, mesh::MeshLayout(each.mesh));
      const auto own = make<M>();
      M& module = *own;
      ShardedModule sharded(own, mesh, each.strategy);
      for (int64_t step = 0; step < 2; ++step) {
        loss(module, batch_of(world.rank(), ranks)).backward();
        if (step == 0) module.zero_grad();
      }
      for (const auto& wanted : alone->named_parameters()) {
        const bool known =
            std::any_of(sharded.layout().parameters.begin(), sharded.layout().parameters.end(),
                        [&](const auto& parameter) { return parameter.name == wanted.key(); });
        if (!known || without_gradient.contains(wanted.key()))
          continue;  // another name of a shared parameter
        const at::Tensor got = sharded.full_gradient(wanted.key());
        const std::lock_guard lock(mutex);
        INFO(wanted.key());
        CHECK(distance({{wanted.key(), got}}, {{wanted.key(), wanted.value().grad()}}) < 1e-6);
      }
    });
  }
}

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
  torch::nn::Linear linear;
};
using Layer = Sharded<LayerImpl>;

struct SharesImpl : torch::nn::Module {
  SharesImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    const auto shared = std::make_shared<Layer>();
    layers->push_back(shared);
    layers->push_back(std::make_shared<Layer>());
    layers->push_back(shared);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<Layer>()->forward(x);
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};

struct BuffersImpl : torch::nn::Module {
  BuffersImpl()
      : layer(register_module("layer", std::make_shared<Layer>())),
        scale(register_buffer("scale", at::full({kWidth}, 0.5))),
        calls(register_buffer("calls", at::zeros({1}))) {}
  at::Tensor forward(const at::Tensor& x) {
    calls.add_(1);
    return layer->forward(x * scale);
  }
  std::shared_ptr<Layer> layer;
  at::Tensor scale, calls;
};

struct UnusedImpl : torch::nn::Module {
  UnusedImpl()
      : used(register_module("used", std::make_shared<Layer>())),
        unused(register_module("unused", std::make_shared<Layer>())),
        also(register_parameter("also", at::ones({kWidth}))),
        not_used(register_parameter("not_used", at::ones({kWidth}))) {}
  at::Tensor forward(const at::Tensor& x) { return used->forward(x) * also; }
  std::shared_ptr<Layer> used, unused;
  at::Tensor also, not_used;
};

struct SplitImpl : torch::nn::Module {
  SplitImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, 2 * kWidth))) {}
  std::tuple<at::Tensor, std::vector<at::Tensor>, int64_t> forward(
      const std::pair<at::Tensor, at::Tensor>& x, double factor, std::optional<at::Tensor> bias) {
    auto halves = linear(x.first * factor + x.second).chunk(2, -1);
    if (bias) halves[0] = halves[0] + *bias;
    return {halves[0], {halves[1], x.second}, 3};
  }
  torch::nn::Linear linear;
};

struct SeveralImpl : torch::nn::Module {
  SeveralImpl()
      : first(register_module("first", std::make_shared<Layer>())),
        split(register_module("split", std::make_shared<Sharded<SplitImpl>>())) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first->forward(x);
    const auto [a, others, number] = split->forward(std::pair(x, y), 0.5, std::optional(y));
    return a * others[0] + others[1] * number;
  }
  std::shared_ptr<Layer> first;
  std::shared_ptr<Sharded<SplitImpl>> split;
};

struct TwiceImpl : torch::nn::Module {
  TwiceImpl()
      : first(register_module("first", std::make_shared<Layer>())),
        twice(register_module("twice", std::make_shared<Layer>())) {}
  at::Tensor forward(const at::Tensor& x) {
    return twice->forward(first->forward(twice->forward(first->forward(x))));
  }
  std::shared_ptr<Layer> first, twice;
};

struct FrozenImpl : torch::nn::Module {
  FrozenImpl()
      : frozen(register_module("frozen", std::make_shared<Layer>())),
        trained(register_module("trained", std::make_shared<Layer>())),
        partly(register_module("partly", std::make_shared<Layer>())) {
    for (auto& each : frozen->parameters()) each.set_requires_grad(false);
    partly->linear->bias.set_requires_grad(false);
  }
  at::Tensor forward(const at::Tensor& x) {
    return partly->forward(frozen->forward(trained->forward(frozen->forward(x))));
  }
  std::shared_ptr<Layer> frozen, trained, partly;
};

struct ThrowsImpl : torch::nn::Module {
  ThrowsImpl() : layer(register_module("layer", std::make_shared<Layer>())) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = layer->forward(x);
    if (fails) throw std::runtime_error("a batch that cannot be used");
    return y;
  }
  std::shared_ptr<Layer> layer;
  bool fails = false;
};

at::Tensor mean_of_squares(const at::Tensor& x) { return x.square().mean(); }

const auto kForward = [](auto& module, const at::Tensor& x) {
  return mean_of_squares(module.forward(x));
};

}  // namespace

TEST_CASE("a layer that two places share") { check_gradients<Sharded<SharesImpl>>(kForward); }
TEST_CASE("buffers of a module") { check_gradients<Sharded<BuffersImpl>>(kForward); }
TEST_CASE("parameters without a gradient") {
  check_gradients<Sharded<UnusedImpl>>(kForward,
                                       {"not_used", "unused.linear.weight", "unused.linear.bias"});
}
TEST_CASE("several inputs and outputs") { check_gradients<Sharded<SeveralImpl>>(kForward); }
TEST_CASE("modules called twice") { check_gradients<Sharded<TwiceImpl>>(kForward); }
TEST_CASE("frozen parts") {
  check_gradients<Sharded<FrozenImpl>>(
      kForward, {"frozen.linear.weight", "frozen.linear.bias", "partly.linear.bias"});
}
TEST_CASE("two forward passes before one backward pass") {
  check_gradients<Sharded<TwiceImpl>>([](auto& module, const at::Tensor& x) {
    return mean_of_squares(module.forward(x)) + mean_of_squares(module.forward(x * 2));
  });
}
TEST_CASE("a pass that throws, and a forward without a graph, before the next step") {
  check_gradients<Sharded<ThrowsImpl>>([](auto& module, const at::Tensor& x) {
    module.fails = true;
    CHECK_THROWS_WITH(module.forward(x), "a batch that cannot be used");
    module.fails = false;
    {
      const at::NoGradGuard no_grad;
      module.forward(x);
    }
    return mean_of_squares(module.forward(x));
  });
}

namespace {

struct StackImpl : torch::nn::SequentialImpl {
  StackImpl()
      : SequentialImpl(torch::nn::Linear(kWidth, 2 * kWidth), torch::nn::ReLU(),
                       torch::nn::Linear(2 * kWidth, kWidth), LayerImpl()) {}
};

}  // namespace

TEST_CASE("a Sequential is sharded as it stands") {
  check_gradients<StackImpl>(kForward);
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2}));
    const auto stack = std::make_shared<StackImpl>();
    const ShardedModule sharded(stack, mesh, config::FSDP2Config{});
    CHECK(sharded.layout().units.size() == 3);
    CHECK(sharded.layout().units[1].name == "2");
    CHECK(stack->named_parameters().contains("3.linear.weight"));
    CHECK(stack->parameters().front().size(0) == kWidth);  // of 2 * kWidth
  });
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
      at::rand({1});  // moves the generator on between the runs
      loss.backward();
      gradients.push_back(sharded.full_gradient("part.linear.weight").clone());
    }
    CHECK(at::equal(gradients[0], gradients[1]));
  });
}

namespace {

constexpr int64_t kTpVocab = 24;

struct TpBlockImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    const auto heads = qkv(norm_1(x)).unflatten(-1, {3, -1, 3}).permute({2, 0, 3, 1, 4});
    const at::Tensor mixed =
        at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0, /*is_causal=*/true);
    x = x + out(mixed.transpose(1, 2).flatten(2));
    return x + down(at::gelu(up(norm_2(x))));
  }
  torch::nn::LayerNorm norm_1 =
      register_module("norm_1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  torch::nn::LayerNorm norm_2 =
      register_module("norm_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  Linear qkv = register_module("qkv", Linear(kWidth, 3 * kWidth, /*slices=*/3));
  Linear out = register_module("out", Linear(kWidth, kWidth));
  Linear up = register_module("up", Linear(kWidth, 4 * kWidth));
  Linear down = register_module("down", Linear(4 * kWidth, kWidth));
};

struct TpGptImpl : torch::nn::Module {
  TpGptImpl() {
    for (int i = 0; i < 2; ++i) blocks->push_back(std::make_shared<Sharded<TpBlockImpl>>());
  }
  at::Tensor forward(const at::Tensor& ids) {
    at::Tensor x = tokens(ids);
    for (const auto& block : *blocks) x = block->as<Sharded<TpBlockImpl>>()->forward(x);
    return head(norm(x));
  }
  Embedding tokens = register_module("tokens", Embedding(kTpVocab, kWidth));
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  Linear head = register_module("head", Linear(kWidth, kTpVocab));
};
using TpGpt = Sharded<TpGptImpl>;

model::TpPlan tp_plan(bool sequence_parallel) {
  return {.source = "test",
          .rules = {{"tokens", TpStyle::kRowwise},
                    {"blocks.*.qkv", TpStyle::kPackedColwise},
                    {"blocks.*.out", TpStyle::kRowwise},
                    {"blocks.*.up", TpStyle::kColwise},
                    {"blocks.*.down", TpStyle::kRowwise},
                    {"blocks.*.norm_1", TpStyle::kSequenceParallel},
                    {"blocks.*.norm_2", TpStyle::kSequenceParallel},
                    {"norm", TpStyle::kSequenceParallel},
                    {"head", TpStyle::kColwiseRep}},
          .sequence_parallel = sequence_parallel};
}

at::Tensor tp_loss(TpGpt& model, int64_t index, int64_t ranks) {
  const at::Tensor all = (at::arange(4 * 9) * 7).remainder(kTpVocab).view({4, 9});
  const at::Tensor ids = all.chunk(ranks).at(static_cast<size_t>(index));
  return at::cross_entropy_loss(model.forward(ids.narrow(1, 0, 8)).flatten(0, 1),
                                ids.narrow(1, 1, 8).flatten());
}

}  // namespace

TEST_CASE("modules under tensor parallelism by a plan of styles") {
  const auto alone = make<TpGpt>();
  const at::Tensor wanted = tp_loss(*alone, 0, 1);
  wanted.backward();
  Named gradients;
  for (const auto& each : alone->named_parameters()) gradients[each.key()] = each.value().grad();
  config::FSDP2Config fsdp2;
  fsdp2.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
  config::MegatronFSDPConfig level_2;
  level_2.zero_dp_strategy = 2;
  const std::vector<std::pair<mesh::MeshSizes, config::DistributedConfig>> all = {
      {{.tp = 2}, fsdp2},
      {{.tp = 4}, fsdp2},
      {{.dp_shard = 2, .tp = 2}, fsdp2},
      {{.dp_shard = 2, .tp = 2}, level_2},
      {{.dp_replicate = 2, .tp = 2}, config::DDPConfig{}}};
  const bool sequence_parallel = GENERATE(false, true);
  for (const auto& [sizes, strategy] : all) {
    INFO(sizes.dp_shard << " " << sizes.dp_replicate << " " << sizes.tp << " "
                        << sequence_parallel);
    std::mutex mutex;
    runtime::run_ranks(sizes.world_size(), [&, sizes = sizes,
                                            strategy = strategy](const runtime::World& world) {
      const runtime::DeviceMesh mesh(world, mesh::MeshLayout(sizes));
      const auto model = make<TpGpt>();
      ShardedModule sharded(model, mesh, strategy, tp_plan(sequence_parallel));
      const runtime::Group& dp = mesh.group("dp_cp");
      at::Tensor loss = tp_loss(*model, dp.index(), dp.size());
      loss.backward();
      Named got;
      for (const auto& each : sharded.layout().parameters) {
        got[each.name] = sharded.full_gradient(each.name).clone();
      }
      const double norm = optim::global_norm(optim::gradient_shards(sharded), mesh.group("world"));
      at::Tensor mean = loss.detach().reshape({1}) / dp.size();
      dp.all_reduce(mean);
      const std::lock_guard lock(mutex);
      CHECK(distance(got, gradients) < 2e-6);
      CHECK(mean.item<double>() == Approx(wanted.item<double>()).epsilon(1e-6));
      double squares = 0;
      for (const auto& [name, tensor] : gradients) squares += tensor.square().sum().item<double>();
      CHECK(norm == Approx(std::sqrt(squares)).epsilon(1e-6));
      CHECK(model->tokens->weight.size(0) <= kTpVocab / sizes.tp);
      for (const at::Tensor& each : model->parameters()) CHECK(each.grad().sizes() == each.sizes());
    });
  }
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
        "a torch module is only sharded over dp_replicate, dp_shard and tp");
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
        "the parameter linear.weight is of Float, others are of Double");
  config::FSDP2Config selective;
  selective.activation_checkpointing = config::ActivationCheckpointing::kSelective;
  CHECK(refused({}, selective, layer) == "a torch module is recomputed by whole units");
  config::FSDP2Config ignored;
  ignored.ignored_params = {"linear.biass"};
  CHECK(refused({}, ignored, layer) == "no parameter matches \"linear.biass\"");
}

TEST_CASE("plans of styles that do not fit a module are refused") {
  const auto refused = [](const model::TpRule& rule) {
    std::string message;
    std::mutex mutex;
    runtime::run_ranks(5, [&](const runtime::World& world) {
      const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.tp = 5}));
      const std::string own = message_of([&] {
        ShardedModule(make<TpGpt>(), mesh, config::FSDP2Config{}, {.source = "", .rules = {rule}});
      });
      const std::lock_guard lock(mutex);
      message = own;
    });
    return message;
  };
  CHECK(refused({"blocks.*.upp", TpStyle::kColwise}) == "no module matches \"blocks.*.upp\"");
  CHECK(refused({"head", TpStyle::kColwise}) ==
        "dimension 0 of head.weight, 24, is not divisible by 5");
  CHECK(refused({"tokens", TpStyle::kColwise}) == "the style colwise cannot shard tokens.weight");
  CHECK_THAT(refused({"norm", TpStyle::kColwise}),
             Catch::Contains("the module norm cannot have the style colwise: it is a "));
}

}  // namespace am::parallel
