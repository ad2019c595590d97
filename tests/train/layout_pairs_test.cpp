// Tests that a run resumes from a checkpoint of another layout: 8 layouts that save, 8 that resume.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am::layout_pairs {
namespace {

constexpr int64_t kBatch = 12;
constexpr size_t kNext = 2;  // number of steps after the checkpoint

struct Layout {
  std::string name;
  int64_t ranks = 1;
  std::string mesh = {}, strategy = {}, more = {};
  int64_t readers = 1;  // number of ranks that read different samples
  int64_t micro_batches = 1;
};

std::string pipeline(const std::string& schedule) {
  return cat("[pipeline]\nschedule = \"", schedule, "\"\nmicrobatches = 4\n");
}
const std::string kSequence = "sequence_parallel = true\n";
const std::string kUlysses = "[context]\nmethod = \"ulysses\"\n";

// Layouts for a model with experts, a dense layer and shared experts. Two pipeline stages cannot
// share its three layers evenly.
const std::vector<Layout> kSaved = {
    {.name = "fsdp 2", .ranks = 2, .readers = 2},
    {.name = "fsdp 3, uneven", .ranks = 3, .readers = 3},
    {.name = "hsdp 2 x 2", .ranks = 4, .mesh = "dp_replicate_size = 2\n", .readers = 4},
    {.name = "tp 2, SP", .ranks = 2, .mesh = "tp_size = 2\n", .strategy = kSequence},
    {.name = "pp 2, 1f1b",
     .ranks = 2,
     .mesh = "pp_size = 2\n",
     .more = pipeline("1f1b"),
     .micro_batches = 4},
    {.name = "cp 2, ring", .ranks = 2, .mesh = "cp_size = 2\n"},
    {.name = "ep 2", .ranks = 2, .mesh = "ep_size = 2\n", .readers = 2},
    {.name = "pp 2 x tp 2",
     .ranks = 4,
     .mesh = "pp_size = 2\ntp_size = 2\n",
     .more = pipeline("gpipe"),
     .micro_batches = 4},
};
const std::vector<Layout> kLoaded = {
    {.name = "one rank"},
    {.name = "fsdp 4", .ranks = 4, .readers = 4},
    {.name = "tp 2 x pp 2, SP",
     .ranks = 4,
     .mesh = "pp_size = 2\ntp_size = 2\n",
     .strategy = kSequence,
     .more = pipeline("1f1b"),
     .micro_batches = 4},
    {.name = "tp 2 x fsdp 2", .ranks = 4, .mesh = "tp_size = 2\n", .readers = 2},
    {.name = "pp 3, gpipe",
     .ranks = 3,
     .mesh = "pp_size = 3\n",
     .more = pipeline("gpipe"),
     .micro_batches = 4},
    {.name = "cp 2 x fsdp 2, Ulysses",
     .ranks = 4,
     .mesh = "cp_size = 2\n",
     .more = kUlysses,
     .readers = 2},
    {.name = "ep 3", .ranks = 3, .mesh = "ep_size = 3\n", .readers = 3},
    {.name = "ep 2 over cp 2, pp 2",
     .ranks = 4,
     .mesh = "pp_size = 2\ncp_size = 2\nep_size = 2\n",
     .more = pipeline("1f1b"),
     .micro_batches = 4},
};

config::Plan plan_of(const Layout& layout) {
  return test::parse(
      cat("[model]\npath = \"table_experts\"\n[train]\nseq_len = 16\nglobal_batch_size = ", kBatch,
          "\nmicro_batch_size = ", kBatch / layout.readers / layout.micro_batches,
          "\nmax_steps = 4\n[optimizer]\nlr = 2e-3\neps = 1e-6\n[data]\nkind = \"synthetic\"\n",
          test::float32_fsdp2(layout.ranks, layout.mesh, layout.strategy), layout.more));
}

using Losses = std::array<double, kNext>;

// Returns the losses of the two steps after step 2. If `saves`, the run starts at step 0 and saves
// a checkpoint at step 2; otherwise it resumes from that checkpoint.
Losses next_losses(const Layout& layout, const run_folder::RunFolder& folder, bool saves) {
  const config::Plan plan = plan_of(layout);
  Losses losses = {};
  runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world, folder, {});
    if (saves) {
      for (const int64_t step : {0, 1}) trainer.train_step(step);
      trainer.save(2);
    }
    RANK_CHECK(saves || trainer.first_step() == 2);
    for (size_t i = 0; i < kNext; ++i) {
      const double loss = trainer.train_step(static_cast<int64_t>(i) + 2).loss;
      if (world.rank() == 0) losses[i] = loss;
    }
  });
  return losses;
}

}  // namespace

TEST_CASE("64 pairs: saved under one layout, the next steps under another are the same") {
  const Layout before = GENERATE(from_range(kSaved));
  INFO("saved under " << before.name);
  const TemporaryFolder temp;
  const run_folder::RunFolder folder(temp.path());
  const Losses wanted = next_losses(before, folder, /*saves=*/true);
  for (const Layout& after : kLoaded) {
    INFO("loaded under " << after.name);
    const Losses got = next_losses(after, folder, /*saves=*/false);
    for (size_t i = 0; i < kNext; ++i) {
      CHECK(std::abs(got[i] - wanted[i]) < 1e-6 * wanted[i]);
    }
  }
}

}  // namespace am::layout_pairs
