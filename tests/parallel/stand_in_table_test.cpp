// Runs every strategy and mesh axis on stand-in devices, which have separate memory and communicate
// through host memory, as backend = "cuda:gloo" does on GPUs. Compares gradients, losses, weights
// and messages with those of the same job on the CPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "support/layout_table.h"
#include "support/strategy_table.h"

namespace am {

namespace {

const std::set<std::string> kStandInRows = {
    "fsdp2, uneven",
    "fsdp2, resharded to 2",
    "fsdp2, accumulation, not deferred",
    "fsdp2, offload",
    "hsdp 2 x 2, accumulation, deferred",
    "megatron_fsdp no_shard, accumulation",
    "megatron_fsdp optim",
    "megatron_fsdp optim_grads, one bucket, accumulation",
    "megatron_fsdp optim_grads_params, double buffers",
    "ddp, accumulation",
    "ddp, selective",
    "tp 2 x fsdp 2, SP, accumulation",
    "cp 2, ring",
    "cp 2, all_gather",
    "cp 2, ulysses",
    "pp 2, interleaved_1f1b",
    "pp 2 x fsdp 2, 1f1b",
    "pp 2 x fsdp 2, zbv_zero_bubble",
    "ep 2 x fsdp 2",
    "ep 2 x ddp 2",
    "tp 2 x cp 2 x pp 2, ring, 1f1b, SP",
};

const std::set<std::string> kWaitRows = {"fsdp2, uneven", "fsdp2, offload", "ddp, accumulation"};

std::vector<test::Combination> stand_in_rows() {
  std::vector<test::Combination> all = test::combinations();
  for (test::Combination& layout : test::layouts()) all.push_back(std::move(layout));
  std::set<std::string> missing = kStandInRows;
  std::erase_if(all, [&](const test::Combination& each) { return missing.erase(each.name) == 0; });
  REQUIRE(missing.empty());
  return all;
}

}  // namespace

// Removes one wait between streams per run, and checks that a race is reported. Streams wait in
// gathers, reductions and copies, and before buffers are freed. The run has two equal steps, so
// only the waits of the first step are removed.
TEST_CASE("a missing wait between streams is found") {
  for (const test::Combination& combination : stand_in_rows()) {
    if (!kWaitRows.contains(combination.name)) continue;
    DYNAMIC_SECTION(combination.name) {
      const test::LostWait all = test::run_without_wait(combination, 0);
      REQUIRE(all.races.empty());
      REQUIRE(all.waits > 10);
      for (uint64_t n = 1; n <= all.waits / 2; ++n) {
        INFO("wait " << n << " of " << all.waits);
        CHECK_FALSE(test::run_without_wait(combination, n).races.empty());
      }
    }
  }
}

TEST_CASE("strategies and layouts on stand-in devices") {
  for (const test::Combination& combination : stand_in_rows()) {
    DYNAMIC_SECTION(combination.name) {
      const test::StandInRow row = test::run_on_stand_ins(combination);
      CHECK(row.gradients <= (row.exact ? 0.0 : 1e-6));
      CHECK(row.losses <= (row.exact ? 0.0 : 1e-6));
      CHECK(row.norms <= 1e-6);  // the device sums the gradients' squares in another order
      // The weights must equal the host's bit by bit only if the norms equal the host's norms;
      // otherwise the weights may differ by 1e-6.
      const double weights = row.norms == 0.0 ? 0.0 : 1e-6;
      CHECK(row.weights <= (row.exact ? weights : 1e-5));
      CHECK(row.same_messages);
      CHECK((std::isfinite(row.last_norm) && row.last_norm > 0));
    }
  }
}

}  // namespace am
