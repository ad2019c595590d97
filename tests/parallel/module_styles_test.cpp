// Tests torch::nn modules under tensor parallelism by a TP plan, which maps patterns of module
// names to styles.
#include <ATen/ATen.h>
#include <torch/nn/modules.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>

#include "am/optim/clip.h"
#include "am/parallel/module/sharded_module.h"
#include "am/runtime/world.h"
#include "support/gpt_module.h"
#include "support/message_of.h"
#include "support/module_cases.h"

namespace am::parallel {

using namespace am::test;

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
  CHECK(refused({"blocks.*.upp", TpStyle::kColwise}) ==
        "no module with parameters matches \"blocks.*.upp\"");
  CHECK(refused({"head", TpStyle::kColwise}) ==
        "dimension 0 of head.weight is 24, not a multiple of 5");
  CHECK(refused({"tokens", TpStyle::kColwise}) == "the style colwise cannot shard tokens.weight");
  CHECK_THAT(refused({"norm", TpStyle::kColwise}),
             Catch::Contains("the module norm cannot have the style colwise: it is a "));
}

}  // namespace am::parallel
