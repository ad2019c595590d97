// Uses automesh::automesh: runs forward and backward of a small model under FSDP2, and under a
// custom strategy, on two ranks of this process.
#include <ATen/ATen.h>
#include <am/checkpoint/weights.h>
#include <am/compat/parallelizer.h>
#include <am/parallel/strategy.h>
#include <am/parallel/unshard.h>
#include <am/rules/check.h>

#include <cmath>
#include <iostream>
#include <mutex>
#include <vector>

namespace {

using namespace am;

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 16,
  "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4})";

// Initializes the parameters and runs forward and backward on a fixed batch. Returns the mean loss.
double step(parallel::ParallelModel& model) {
  checkpoint::initialize(model, /*seed=*/0);
  const at::Tensor ids = at::arange(16, at::TensorOptions(at::kLong)).view({1, 16});
  const at::Tensor loss = model.loss_sum(model.forward(ids), ids + 1) / 16;
  loss.backward();
  model.data_parallel().finish_backward();
  const auto whole = parallel::unshard_fsdp2_model(model);  // gathered until the end of the scope
  return loss.item<double>();
}

parallel::Parallelized never_freed(const parallel::StrategyInput& input) {
  parallel::Parallelized made;
  made.vocabulary_slice = parallel::prepare_decoder(input);
  parallel::DataParallelOptions options;  // all in float32
  options.reshard_after_forward.assign(input.layout.units.size(), false);
  made.data_parallel = parallel::apply_fsdp_sharding_recursively(input, std::move(options));
  return made;
}

config::FSDP2Config full_precision() {
  config::FSDP2Config strategy;
  strategy.mp_policy = {"float32", "float32", "float32", true};
  return strategy;
}

}  // namespace

int main() {
  Diagnostics found;
  const auto config = model::parse_config(kConfig, "config.json", found);
  parallel::register_parallel_strategy("never_freed", never_freed);
  std::mutex mutex;
  std::vector<double> losses;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2}));
    const auto fsdp2 = compat::fsdp2_strategy_parallelize(*config, mesh, full_precision());

    config::Plan plan;
    plan.mesh.world_size = 2;
    Diagnostics wrong;
    const auto layout = layout::build_layout(plan, *config, mesh.layout().sizes(), wrong);
    const auto own = parallel::ParallelModel::build(plan, *config, *layout, mesh, "never_freed");

    const double a = step(*fsdp2);
    const double b = step(*own);
    const std::lock_guard lock(mutex);
    losses.insert(losses.end(), {a, b});
  });
  bool same = true;
  for (const double loss : losses) same = same && loss == losses.front() && std::isfinite(loss);
  std::cout << "loss " << losses.front() << (same ? " under both strategies\n" : ", not always\n");
  return same && losses.front() > 1.0 ? 0 : 1;
}
