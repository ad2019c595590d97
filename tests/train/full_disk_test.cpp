// A disk without space for the metrics, simulated by the limit of file sizes: the metrics are
// larger here than any file of a checkpoint.
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

// Returns the error of each rank in a job of `steps` steps; empty for a rank that succeeded.
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
  // The metrics contain a long record, as another version of automesh may write it. The job keeps
  // this record when it resumes.
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
  // The newest checkpoint is that of step 4. Writing the metrics of step 3 failed, and in step 4
  // all ranks learned of the failure.
  const auto newest = run_folder::newest_complete(run.checkpoints());
  REQUIRE(newest.found);
  CHECK(newest.found->step == 4);
  CHECK(newest.skipped.empty());
  // With free space, the job resumes from this checkpoint.
  CHECK(run_job(run.root(), 6) == std::vector<std::string>(2));
  CHECK(steps_of(run) == std::vector<int64_t>{2, 5, 6});
}

}  // namespace am
