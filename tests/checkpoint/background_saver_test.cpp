// Tests checkpoints that are written in the background while the parameters keep changing.
#include "am/checkpoint/background_saver.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <mutex>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/job/job.h"
#include "am/predict/memory/memory.h"
#include "am/stored/tensor_source.h"
#include "am/train/dry_run.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/stand_in_device.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

config::Plan plan_on(int64_t ranks, const std::string& mesh = {}) {
  return test::parse(cat("[model]\npath = \"hf/llama\"\nseed = 7\n[train]\nseq_len = 16\n[mesh]\n",
                         "world_size = ", ranks, "\n", mesh, "[strategy]\n", test::kFullPrecision));
}

SavedState state_of(const test::RankModel& rank, const config::Plan& plan, int64_t step) {
  SavedState state;
  state.info.step = step;
  state.info.world_size = rank.layout.mesh.world_size();
  state.info.mesh = rank.layout.mesh.sizes();
  state.info.model_type = rank.config.model_type;
  state.plan_toml = config::to_toml(plan);
  return state;
}

void fill(parallel::ParallelModel& model, double value) {
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    at::Tensor(owned.value).fill_(value);
  });
}

bool all_are(const stored::TensorSource& source, double value) {
  for (const stored::StoredTensor& tensor : source.tensors()) {
    if (!at::equal(checkpoint::read_all(source, tensor.name), at::full(tensor.shape, value)))
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("what is saved is what was there when it was asked for") {
  const TemporaryFolder temp;
  const config::Plan plan = plan_on(3);
  std::atomic<int> published = 0;
  runtime::run_ranks(3, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    BackgroundSaver saver(*rank.model, state_of(rank, plan, 0));
    for (int step = 1; step <= 4; ++step) {
      fill(*rank.model, step);
      saver.save(temp.path() / cat("step-", step), state_of(rank, plan, step),
                 [&] { ++published; });
      fill(*rank.model, -1.0);
    }
    saver.finish();
    saver.finish();  // no save is in progress
    RANK_CHECK(!saver.failed());
  });
  CHECK(published == 4);
  for (int step = 1; step <= 4; ++step) {
    CHECK(all_are(*frameworks::open_tensor_source(temp.path() / cat("step-", step)), step));
  }
  CHECK(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()) == 4);
}

TEST_CASE("a device's values are copied before an update changes them") {
  const TemporaryFolder temp;
  const config::Plan plan = plan_on(2);
  test::run_stand_ins(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    BackgroundSaver saver(*rank.model, state_of(rank, plan, 0), /*on_host=*/false);
    fill(*rank.model, 5);
    saver.save(temp.path() / "step-1", state_of(rank, plan, 1));
    saver.before_update();
    fill(*rank.model, 6);
    saver.finish();
  });
  CHECK(all_are(*frameworks::open_tensor_source(temp.path() / "step-1"), 5));
}

TEST_CASE("a save that nobody waits for is finished with the saver, or is not there") {
  const TemporaryFolder temp;
  const config::Plan plan = plan_on(2);
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    fill(*rank.model, 5);
    BackgroundSaver saver(*rank.model, state_of(rank, plan, 0));
    saver.save(temp.path() / "step-1", state_of(rank, plan, 1));
  });
  if (fs::exists(temp.path() / "step-1")) {
    CHECK(all_are(*frameworks::open_tensor_source(temp.path() / "step-1"), 5));
  }
}

TEST_CASE("a full disk is told on every rank, and leaves the old checkpoint alone") {
  const TemporaryFolder temp;
  const config::Plan plan = plan_on(2);
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const old = std::signal(SIGXFSZ, SIG_IGN);
  std::atomic<int> told = 0;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    fill(*rank.model, 5);
    BackgroundSaver saver(*rank.model, state_of(rank, plan, 0));
    saver.save(temp.path() / "step-1", state_of(rank, plan, 1));
    saver.finish();
    world.group().barrier();
    struct rlimit small = before;
    small.rlim_cur = 16'384;
    ::setrlimit(RLIMIT_FSIZE, &small);
    fill(*rank.model, 6);
    saver.save(temp.path() / "step-1", state_of(rank, plan, 1));
    try {
      saver.finish();
    } catch (const Error& error) {
      told += std::string(error.what()).find("cannot write: File too large") != std::string::npos;
    }
    world.group().barrier();
    ::setrlimit(RLIMIT_FSIZE, &before);
    // After the failed save, the next save succeeds.
    saver.save(temp.path() / "step-2", state_of(rank, plan, 2));
    saver.finish();
  });
  std::signal(SIGXFSZ, old);
  CHECK(told == 2);
  CHECK(all_are(*frameworks::open_tensor_source(temp.path() / "step-1"), 5));
  CHECK(all_are(*frameworks::open_tensor_source(temp.path() / "step-2"), 6));
  CHECK_FALSE(fs::exists(temp.path() / "step-1.tmp"));
}

TEST_CASE("am-plan knows the memory for copies") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, "[mesh]\nworld_size = 1\n[strategy]\nbackend = \"gloo\"\n"},
      {"fsdp2 on 3", 3, "[mesh]\nworld_size = 3\n[strategy]\nbackend = \"gloo\"\n"},
      {"hsdp 2 x 2", 4,
       "[mesh]\nworld_size = 4\ndp_replicate_size = 2\n[strategy]\nbackend = \"gloo\"\n"},
      {"tp 2 x fsdp2 2", 4,
       "[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nbackend = \"gloo\"\n"},
      {"pp 2 x cp 2", 4,
       "[mesh]\nworld_size = 4\npp_size = 2\ncp_size = 2\n[strategy]\nbackend = \"gloo\"\n"
       "[pipeline]\nmicrobatches = 2\n"},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\nbackend = \"gloo\"\n"}};
  for (const auto& layout : layouts) {
    const auto plan_of = [&](const char* async) {
      return test::parse(cat("[model]\npath = \"table_large\"\n[train]\nseq_len = 256\n",
                             "micro_batch_size = 1\n[data]\nkind = \"synthetic\"\n[checkpoint]\n",
                             "async = ", async, "\n", layout.toml));
    };
    for (int64_t rank = 0; rank < layout.ranks; ++rank) {
      INFO(layout.name << ", rank " << rank);
      Diagnostics found;
      const config::Plan plan = plan_of("true");
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      const job::Job job = job::make_job(plan, *config, layout.ranks);
      const config::Plan without = plan_of("false");
      const int64_t copies =
          train::dry_run(job, rank).peak.total() -
          train::dry_run(job::make_job(without, *config, layout.ranks), rank).peak.total();
      const int64_t predicted =
          predict::estimate_memory(plan, *config, job.layout, rank).components.total() -
          predict::estimate_memory(without, *config, job.layout, rank).components.total();
      CHECK(copies > 1'000'000);
      CHECK(static_cast<double>(predicted) == Approx(static_cast<double>(copies)).epsilon(0.02));
    }
  }
}

}  // namespace am::checkpoint
