// The memory of a step in which all tokens are routed to the same experts does not exceed am-plan's
// bound by more than 2 %.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>

#include "am/base/text.h"
#include "am/predict/memory/memory.h"
#include "am/tensor/memory_meter.h"
#include "support/plans.h"

namespace am::skewed_memory {
namespace {

// Returns the predicted peak without the optimizer, since no optimizer step runs.
int64_t planned(const config::Plan& plan, predict::Routing routing) {
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const auto sizes = layout::resolve_mesh(plan, 0, found);
  const auto layout = layout::build_layout(plan, *config, *sizes, found);
  const predict::MemoryComponents bytes =
      predict::estimate_memory(plan, *config, *layout, 0, routing).components;
  return bytes.total() - bytes.optimizer;
}

// Runs forward and backward of a model whose parameters are zeros. All experts have equal scores,
// so every token is routed to the same experts. Returns the largest peak of all ranks, in bytes.
// Sets `counts` to one rank's number of tokens per expert, layer after layer.
int64_t measured(const config::Plan& plan, std::vector<int64_t>& counts) {
  int64_t peak = 0;
  std::mutex mutex;
  runtime::run_ranks(plan.mesh.world_size, [&](const runtime::World& world) {
    const tensor::MemoryMeter meter;
    test::RankModel rank(plan, world);
    rank.model->data_parallel().zero_grad();
    const at::Tensor ids = at::zeros({plan.train.micro_batch_size, plan.train.seq_len}, at::kLong);
    {
      at::Tensor logits = rank.model->forward(ids);
      const at::Tensor loss = rank.model->loss_sum(std::exchange(logits, {}), ids);
      loss.backward();
    }
    rank.model->data_parallel().finish_backward();
    const std::lock_guard lock(mutex);
    counts = rank.model->take_expert_counts();
    peak = std::max(peak, meter.peak().total());
  });
  return peak;
}

}  // namespace

TEST_CASE("am-plan states a bound for experts that all tokens take") {
  const std::string model = GENERATE("table_experts_large", "table_stacked_large");
  const std::string mode = GENERATE("false", "true", "\"selective\"", "\"mlp\"");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"", model, "\"\n[train]\nseq_len = 64\nmicro_batch_size = 32\n",
          test::float32_fsdp2(1, "",
                              cat("backend = \"gloo\"\nactivation_checkpointing = ", mode, "\n"))));
  std::vector<int64_t> counts;
  const auto got = static_cast<double>(measured(plan, counts));
  const int64_t tokens = plan.train.seq_len * plan.train.micro_batch_size;
  CHECK(std::count(counts.begin(), counts.begin() + 6, tokens) == 2);
  INFO(model << ", checkpointing " << mode << ": " << got << " measured, "
             << planned(plan, predict::Routing::kEven) << " planned where they are taken evenly");
  CHECK(got <= 1.02 * static_cast<double>(planned(plan, predict::Routing::kSkewed)));
  CHECK(planned(plan, predict::Routing::kSkewed) >= planned(plan, predict::Routing::kEven));
}

TEST_CASE("am-plan states a bound for ranks whose experts all tokens take") {
  const auto [model, ep] = GENERATE(table<std::string, int64_t>(
      {{"table_routed_large", 2}, {"table_routed_large", 8}, {"table_stacked_large", 3}}));
  const std::string mode = GENERATE("false", "true", "\"selective\"");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"", model, "\"\n[train]\nseq_len = 64\nmicro_batch_size = 8\n",
          test::float32_fsdp2(ep, cat("ep_size = ", ep, "\n"),
                              cat("backend = \"gloo\"\nactivation_checkpointing = ", mode, "\n"))));
  std::vector<int64_t> counts;
  const auto got = static_cast<double>(measured(plan, counts));
  const auto bound = static_cast<double>(planned(plan, predict::Routing::kSkewed));
  INFO(model << ", ep " << ep << ", checkpointing " << mode << ": " << got << " measured, "
             << planned(plan, predict::Routing::kEven) << " planned where they are taken evenly");
  CHECK(got <= 1.02 * bound);
  CHECK(got >= 0.7 * bound);  // the experts that all tokens take may be on two ranks
}

TEST_CASE("the gradient of stacked down projections, which alone are trained, counts once") {
  const config::Plan plan = test::parse(cat(
      "[model]\npath = \"table_stacked_large\"\nfreeze_params = [\"*embed*\", \"lm_head*\", "
      "\"*norm*\", \"*attn*\", \"*router*\", \"*gate_up*\", \"*bias\"]\n[train]\nseq_len = 64\n",
      test::float32_fsdp2(1, "", "backend = \"gloo\"\n")));
  std::vector<int64_t> counts;
  const auto got = static_cast<double>(measured(plan, counts));
  const auto bound = static_cast<double>(planned(plan, predict::Routing::kSkewed));
  INFO(got << " measured, " << bound << " planned");
  CHECK(got <= bound);
  CHECK(bound <= 1.03 * got);
}

}  // namespace am::skewed_memory
