// Tests a job that cannot write metrics.jsonl because the disk is full. A limit on the size of the
// process's files simulates the full disk: metrics.jsonl reaches the limit, and every file of a
// checkpoint is smaller.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"
#include "am/run_folder/step_folders.h"
#include "am/train/trainer.h"
#include "support/file_limit.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongLine = size_t{2} << 20;

// Returns the error message of each rank in a job of `steps` steps, or "" for a rank without error.
std::vector<std::string> run_job(const fs::path& root, int64_t steps) {
  constexpr int64_t kRanks = 2;
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"loop/model\"\n[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n",
          "[train]\nseq_len = 16\nmicro_batch_size = 2\nglobal_batch_size = 8\nmax_steps = ", steps,
          "\n[optimizer]\nlr = 1e-2\n[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n"));
  const run_folder::RunFolder run(root);
  const launch::StopSignal stop;
  std::vector<std::string> errors(kRanks);
  runtime::run_ranks(kRanks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world, run, {});
    try {
      const train::TrainResult result = trainer.run(stop);
      RANK_CHECK(result.steps == steps || result.stopped);
    } catch (const Error& error) {
      RANK_CHECK(error.kind() == ErrorKind::kIo);
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

std::vector<int64_t> steps_of(const run_folder::RunFolder& run) {
  std::vector<int64_t> steps;
  for (const auto& metrics : observe::read_metrics(run.metrics_file())) {
    steps.push_back(metrics.step);
  }
  return steps;
}

}  // namespace

TEST_CASE("a job whose metrics cannot be written saves before it ends") {
  const TemporaryFolder temporary;
  const auto run = run_folder::RunFolder::create(temporary / "run");
  CHECK(run_job(run.root(), 2) == std::vector<std::string>(2));
  // A record with a long unknown field, as another version of automesh may write it, enlarges the
  // metrics. The job keeps this record when it resumes.
  const fs::path file = run.metrics_file();
  std::string record = observe::to_json_line(observe::read_metrics(file).back());
  record.insert(1, cat("\"note\": \"", std::string(kLongLine, 'x'), "\", "));
  std::ofstream(file) << record << '\n';
  {
    const FileLimit limit(fs::file_size(file) + 20);
    const auto errors = run_job(run.root(), 50);
    CHECK_THAT(errors[0], Catch::Contains("metrics.jsonl: cannot write the metrics"));
    CHECK(errors[1].empty());
  }
  // Rank 0 failed to write the metrics of step 3. All ranks received this failure in step 4, saved
  // a checkpoint and stopped.
  const auto newest = run_folder::newest_complete(run.checkpoints());
  REQUIRE(newest.found);
  CHECK(newest.found->step == 4);
  CHECK(newest.skipped.empty());
  // With free space, the job resumes from this checkpoint.
  CHECK(run_job(run.root(), 6) == std::vector<std::string>(2));
  CHECK(steps_of(run) == std::vector<int64_t>{2, 5, 6});
}

}  // namespace am
