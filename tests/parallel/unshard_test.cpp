// unshard_fsdp2_model() gathers all units of a model until the end of a scope.
#include "am/parallel/unshard.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "am/base/error.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am::parallel {

namespace {

config::Plan qwen2_plan() {
  return test::parse(
      "[model]\npath = \"hf/qwen2\"\n[train]\nseq_len = 16\n[mesh]\n"
      "world_size = 2\n[strategy]\nname = \"fsdp2\"\n");
}

size_t gathered(ParallelModel& model) {
  size_t count = 0;
  for (const auto& group : model.data_parallel().groups()) count += group->is_unsharded() ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("unshard_fsdp2_model: everything is whole inside, and sharded after", "[parity]") {
  runtime::run_ranks(2, [](const runtime::World& world) {
    test::RankModel rank(qwen2_plan(), world);
    ParallelModel& model = *rank.model;
    const size_t units = model.data_parallel().groups().size();
    RANK_CHECK(gathered(model) == 0);
    {
      const auto outer = unshard_fsdp2_model(model);
      RANK_CHECK(gathered(model) == units);
      {
        auto inner = unshard_fsdp2_model(model);
        const auto moved = std::move(inner);
        RANK_CHECK(gathered(model) == units);
      }
      RANK_CHECK(gathered(model) == units);  // the units of the outer scope stay gathered
    }
    RANK_CHECK(gathered(model) == 0);
  });
}

TEST_CASE("unshard_fsdp2_model frees what a pass inside it left or freed", "[parity]") {
  runtime::run_ranks(2, [](const runtime::World& world) {
    test::RankModel rank(qwen2_plan(), world);
    ParallelModel& model = *rank.model;
    const size_t units = model.data_parallel().groups().size();
    {
      const auto outer = unshard_fsdp2_model(model);
      const at::NoGradGuard no_grad;
      model.forward(at::zeros({1, 16}, at::TensorOptions(at::kLong)));
      RANK_CHECK(gathered(model) < units);
      const auto again = unshard_fsdp2_model(model);
      RANK_CHECK(gathered(model) == units);
    }
    RANK_CHECK(gathered(model) == 0);
  });
}

TEST_CASE("unshard_fsdp2_model reshards when the body throws", "[parity]") {
  runtime::run_ranks(2, [](const runtime::World& world) {
    test::RankModel rank(qwen2_plan(), world);
    bool thrown = false;
    try {
      const auto whole = unshard_fsdp2_model(*rank.model);
      throw std::runtime_error("in the body");
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    RANK_CHECK(thrown);
    RANK_CHECK(gathered(*rank.model) == 0);
  });
}

TEST_CASE("unshard_fsdp2_model reshards when a gather throws half-way", "[parity]") {
  runtime::run_ranks(
      2,
      [](const runtime::World& world) {
        test::RankModel rank(qwen2_plan(), world);
        auto& groups = rank.model->data_parallel().groups();
        if (world.rank() == 1) {  // takes part only in the first gather
          groups.front()->unshard();
          world.abort();
          return;
        }
        bool failed = false;
        try {
          const auto whole = unshard_fsdp2_model(*rank.model);
        } catch (const Error& error) {
          failed = error.kind() == ErrorKind::kPeer;
        }
        RANK_CHECK(failed);
        RANK_CHECK(gathered(*rank.model) == 0);
      },
      std::chrono::seconds(20));
}

}  // namespace am::parallel
