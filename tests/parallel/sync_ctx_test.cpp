// Tests get_sync_ctx(). ddp reduces gradients only in the last backward pass of a step. fsdp2
// reduces in every pass or, if the reduction is deferred, only in the last pass. megatron_fsdp at
// its default level 3 reduces in every pass.
#include "am/parallel/sync_ctx.h"

#include <catch2/catch.hpp>

#include "support/plans.h"
#include "support/rank_check.h"

namespace am::parallel {

namespace {

config::Plan plan_of(const std::string& strategy) {
  return test::parse(
      "[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\n[mesh]\n"
      "world_size = 1\n[strategy]\nname = \"" +
      strategy + "\"\n");
}

// Returns whether gradients are synchronised inside the scope, and after it.
std::pair<bool, bool> syncs(DataParallel& model, const config::DistributedConfig& strategy,
                            bool is_optim_step, bool defer) {
  model.set_requires_gradient_sync(true);
  bool inside = false;
  {
    const auto sync = get_sync_ctx(model, strategy, is_optim_step, defer);
    inside = model.requires_gradient_sync();
  }
  return {inside, model.requires_gradient_sync()};
}

}  // namespace

TEST_CASE("get_sync_ctx: DDP reduces in the last backward pass, and after the scope", "[parity]") {
  test::RankModel rank(plan_of("ddp"), runtime::World::single());
  auto& model = rank.model->data_parallel();
  const config::DistributedConfig ddp = config::DDPConfig{};
  using Result = std::pair<bool, bool>;
  CHECK(syncs(model, ddp, false, true) == Result(false, true));
  CHECK(syncs(model, ddp, false, false) == Result(false, true));
  CHECK(syncs(model, ddp, true, true) == Result(true, true));
}

TEST_CASE("get_sync_ctx: FSDP2 defers when it may, and stays so", "[parity]") {
  test::RankModel rank(plan_of("fsdp2"), runtime::World::single());
  auto& model = rank.model->data_parallel();
  const config::DistributedConfig fsdp2 = config::FSDP2Config{};
  using Result = std::pair<bool, bool>;
  CHECK(syncs(model, fsdp2, false, true) == Result(false, false));
  CHECK(syncs(model, fsdp2, false, false) == Result(true, true));
  CHECK(syncs(model, fsdp2, true, true) == Result(true, true));
  CHECK(syncs(model, config::MegatronFSDPConfig{}, false, true) == Result(true, true));
}

}  // namespace am::parallel
