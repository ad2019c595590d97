// Unusual torch::nn modules, for example with shared layers, buffers or unused parameters, have the
// same gradients under every data-parallel strategy as on one device.
#include <ATen/ATen.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <stdexcept>

#include "am/parallel/module/sharded_module.h"
#include "am/runtime/world.h"
#include "support/gpt_module.h"
#include "support/module_cases.h"

namespace am::parallel {

using namespace am::test;

namespace {

// Compares the module's gradients under fsdp2, megatron_fsdp and ddp with those of one device.
// `loss` returns the mean loss of a batch [n, kWidth].
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
          continue;  // a second name of a shared parameter, or a parameter without a gradient
        const at::Tensor got = sharded.full_gradient(wanted.key());
        const std::lock_guard lock(mutex);
        INFO(wanted.key());
        CHECK(distance({{wanted.key(), got}}, {{wanted.key(), wanted.value().grad()}}) < 1e-6);
      }
    });
  }
}

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
    CHECK(stack->parameters().front().size(0) == kWidth);  // half of the 2 * kWidth rows
  });
}

}  // namespace am::parallel
