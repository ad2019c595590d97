// Tests offloading: shards, gradients and optimizer moments are in host memory while another device
// computes. This device is the stand-in device, a simulated device with separate memory, which
// detects accesses that a GPU would refuse.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/optim/clip.h"
#include "am/optim/from_plan.h"
#include "am/parallel/sync_ctx.h"
#include "am/train/setup.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/stand_in_device.h"

namespace am {
namespace {

constexpr int64_t kRows = 2;
constexpr int64_t kLength = 8;
constexpr int64_t kMicroBatches = 3;

config::Plan plan_for(const std::string& mesh, const std::string& strategy) {
  return test::parse(cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = ", kLength, "\n[mesh]\n",
                         mesh, "[strategy]\n", strategy));
}

std::string fsdp2(const std::string& param, const std::string& reduce, const std::string& more) {
  return cat("name = \"fsdp2\"\nmp_policy = { param_dtype = \"", param, "\", reduce_dtype = \"",
             reduce, "\", output_dtype = \"float32\" }\n", more);
}

// Returns the parameters after two steps of three micro-batches each, one tensor per group.
std::vector<at::Tensor> two_steps(const config::Plan& plan, const runtime::World& world) {
  test::RankModel rank(plan, world);
  parallel::ParallelModel& model = *rank.model;
  checkpoint::load_or_initialize(model, plan);
  auto& data_parallel = model.data_parallel();
  const auto optimizer = optim::make_optimizer(plan, model);
  const int64_t first = rank.mesh.group("dp").index() * 5;
  for (int64_t step = 0; step < 2; ++step) {
    data_parallel.zero_grad();
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      const at::Tensor ids = at::arange(kRows * kLength)
                                 .add(7 * m + step + first)
                                 .remainder(67)
                                 .view({kRows, -1})
                                 .to(world.device());
      const auto sync = parallel::get_sync_ctx(data_parallel, plan.strategy, m + 1 == kMicroBatches,
                                               config::defers_gradient_sync(plan.strategy));
      (model.loss_sum(model.forward(ids), ids) / 48.0).backward();
      data_parallel.finish_backward();
    }
    const double norm = optim::global_norm(optim::gradient_shards(model), rank.mesh.group("world"));
    for (const at::Tensor& gradient : train::trained_gradients(model)) {
      gradient.mul_(optim::clip_factor(norm, 0.5));
    }
    optimizer->step(train::trained_gradients(model), 1e-2);
  }
  std::vector<at::Tensor> values;
  for (const auto& group : data_parallel.groups()) values.push_back(group->flat().cpu());
  return values;
}

// Compares the parameters after training on the stand-in device with the parameters after training
// on the host. The values differ by rounding, because the host's fused operators sum in another
// order.
void check_against_host(const config::Plan& plan, int64_t ranks, double tolerance = 1e-4) {
  std::vector<at::Tensor> wanted(static_cast<size_t>(ranks));
  const auto values = [&](const runtime::World& world) {
    return at::cat(two_steps(plan, world)).to(at::kDouble);
  };
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    wanted[static_cast<size_t>(world.rank())] = values(world);
  });
  test::run_stand_ins(ranks, [&](const runtime::World& world) {
    const at::Tensor& on_host = wanted[static_cast<size_t>(world.rank())];
    const at::Tensor difference = values(world) - on_host;
    RANK_CHECK(difference.norm().item<double>() <= tolerance * on_host.norm().item<double>());
  });
}

}  // namespace

TEST_CASE("the stand-in device keeps its memory apart") {
  const at::Tensor here = at::ones({3});
  const at::Tensor there = at::ones({3}, test::stand_in_device());
  CHECK_THROWS_WITH(there + here, Catch::Contains("same device"));
  CHECK_THROWS_WITH(at::zeros({3}).add_(there), Catch::Contains("same device"));
  CHECK(at::equal((there + there.to(test::stand_in_device())).cpu(), at::full({3}, 2.0)));
  CHECK((there + at::ones({})).cpu().sum().item<double>() == 6.0);
  at::Tensor target = at::zeros({3});
  CHECK(at::equal(target.copy_(there), here));
}

TEST_CASE("accumulation on offloaded gradients, deferred or not") {
  const std::string offload = "backend = \"nccl\"\noffload_policy = { pin_memory = false }\n";
  const std::string defer = GENERATE("", "defer_fsdp_grad_sync = false\n");
  const std::string dtypes = GENERATE("float32 float32", "bfloat16 float32", "bfloat16 bfloat16");
  const size_t space = dtypes.find(' ');
  const std::string strategy =
      fsdp2(dtypes.substr(0, space), dtypes.substr(space + 1), offload + defer);
  INFO(strategy);
  const double tolerance = dtypes == "float32 float32" ? 1e-4 : 2e-2;
  check_against_host(plan_for("world_size = 1\n", strategy), 1, tolerance);
  check_against_host(plan_for("world_size = 2\n", strategy), 2, tolerance);
}

TEST_CASE("every strategy keeps a device's tensors on the device") {
  const std::string full = fsdp2("float32", "float32", "");
  const std::vector<test::LayoutCase> layouts = {
      {"hsdp, offloaded, not deferred", 4,
       "world_size = 4\ndp_replicate_size = 2\n[strategy]\n" + full +
           "backend = \"nccl\"\noffload_policy = { pin_memory = false }\n"
           "defer_fsdp_grad_sync = false\n"},
      {"fsdp2, prefetch, checkpointing", 2,
       "world_size = 2\n[strategy]\n" + full +
           "enable_fsdp2_prefetch = true\nactivation_checkpointing = \"selective\"\n"},
      {"tp", 2, "world_size = 2\ntp_size = 2\n[strategy]\n" + full},
      {"tp, sequence parallel", 2,
       "world_size = 2\ntp_size = 2\n[strategy]\n" + full + "sequence_parallel = true\n"},
      {"ddp", 2, "world_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp", 2,
       "world_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nfsdp_double_buffer = true\n"},
  };
  for (const auto& layout : layouts) {
    DYNAMIC_SECTION(layout.name) {
      const size_t at = layout.toml.find("[strategy]");
      check_against_host(plan_for(layout.toml.substr(0, at), layout.toml.substr(at + 11)),
                         layout.ranks);
    }
  }
}

TEST_CASE("every optimizer keeps a device's tensors on the device, and offloaded ones off it") {
  const std::string full = fsdp2("float32", "float32", "");
  const std::string optimizer =
      GENERATE("name = \"muon\"\n", "name = \"sgd\"\nmomentum = 0.9\n", "name = \"adam\"\n");
  const std::string offload =
      GENERATE("", "backend = \"nccl\"\noffload_policy = { pin_memory = false }\n");
  const std::string sizes =
      GENERATE("world_size = 1\n", "world_size = 2\n", "world_size = 2\ntp_size = 2\n");
  INFO(optimizer << sizes << offload);
  const config::Plan plan = plan_for(sizes, full + offload + "[optimizer]\n" + optimizer);
  check_against_host(plan, sizes == "world_size = 1\n" ? 1 : 2, 1e-3);
}

}  // namespace am
