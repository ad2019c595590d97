// The planner predicts the bytes of stored parameters and optimizer states exactly, on every rank.
#include "am/predict/memory/memory.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/optim/from_plan.h"
#include "support/plans.h"

namespace am {
namespace {

struct Allocated {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
};

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

Allocated allocate(const config::Plan& plan, const runtime::World& world) {
  test::RankModel rank(plan, world);
  const at::Tensor ids = at::zeros({1, plan.train.seq_len}, at::kLong);
  rank.model->loss_sum(rank.model->forward(ids), ids).backward();
  rank.model->data_parallel().finish_backward();
  Allocated allocated;
  std::vector<at::Tensor> flat;
  for (const auto& group : rank.model->data_parallel().groups()) {
    allocated.parameters += bytes_of(group->flat());
    allocated.gradients += bytes_of(group->flat_grad());
    flat.push_back(group->flat());
  }
  const auto optimizer = optim::make_optimizer(plan, *rank.model);
  for (size_t g = 0; g < flat.size(); ++g) {
    const auto& group = *rank.model->data_parallel().groups()[g];
    for (size_t i = 0; i < group.owned().size(); ++i) {
      const auto& piece = group.pieces()[i];
      for (const auto& state : optimizer->state_of({g, piece.flat_offset, piece.flat_length})) {
        allocated.optimizer += bytes_of(state.value);
      }
    }
  }
  return allocated;
}

std::string megatron_fsdp(int64_t level) {
  return cat("[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = ",
             level, "\n");
}

}  // namespace

TEST_CASE("states are predicted to the byte on every rank") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, "[mesh]\nworld_size = 1\n[strategy]\nname = \"fsdp2\"\n"},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp 0 on 2", 2, megatron_fsdp(0)},
      {"megatron_fsdp 1 on 2", 2, megatron_fsdp(1)},
      {"megatron_fsdp 2 on 2", 2, megatron_fsdp(2)},
      {"megatron_fsdp 3 on 2, fp32 weights", 2,
       megatron_fsdp(3) + "preserve_fp32_weights = true\n"},
      {"fsdp2 on 3", 3, "[mesh]\nworld_size = 3\n[strategy]\nname = \"fsdp2\"\n"},
      {"hsdp 2 x 2", 4,
       "[mesh]\nworld_size = 4\ndp_replicate_size = 2\n[strategy]\nname = \"fsdp2\"\n"},
      {"tp 2 x fsdp2 2", 4, "[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\n"},
  };
  const std::string family = GENERATE("llama", "qwen2", "qwen3");
  const std::string dtype = GENERATE("float32", "bfloat16");
  for (const auto& layout : layouts) {
    const config::Plan plan = test::parse(cat("[model]\npath = \"hf/", family, "\"\ndtype = \"",
                                              dtype, "\"\n[train]\nseq_len = 16\n", layout.toml));
    std::mutex mutex;
    std::map<int64_t, Allocated> allocated;
    runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
      const Allocated mine = allocate(plan, world);
      const std::lock_guard lock(mutex);
      allocated[world.rank()] = mine;
    });
    Diagnostics found;
    const auto model = model::load_config(plan.resolve(plan.model.path), found);
    const auto sizes = layout::resolve_mesh(plan, layout.ranks, found);
    const auto built = layout::build_layout(plan, *model, *sizes, found);
    for (const auto& [rank, bytes] : allocated) {
      INFO(family << ", " << dtype << ", " << layout.name << ", rank " << rank);
      const auto predicted = predict::estimate_memory(plan, *model, *built, rank).components;
      CHECK(predicted.parameters == bytes.parameters);
      CHECK(predicted.parameters ==
            bytes.gradients);  // all parameters are trained, so each has a gradient
      CHECK(predicted.gradients <= bytes.gradients);
      CHECK(predicted.optimizer == bytes.optimizer);
    }
  }
}

}  // namespace am
