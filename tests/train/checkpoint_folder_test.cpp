// Tests the checkpoints in a run folder that consecutive jobs share.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "train/resumed_runs.h"

namespace am {

using test::Job;
using test::Ran;
using test::resume_from;
using test::Runs;
namespace fs = std::filesystem;

TEST_CASE("going back sets aside what lies ahead, and keep counts the new way alone") {
  Runs runs;
  Job job;
  job.checkpoint = "every = 2\nkeep = 2\n";
  job.steps = 8;
  runs.run(job);
  CHECK(runs.checkpoints() == std::set<std::string>{"step-6", "step-8"});
  SECTION("to the beginning") {
    job.steps = 4;
    job.checkpoint += "resume = \"none\"\n";
    CHECK_THAT(runs.run(job).all(), Catch::Contains("set aside: step-8.superseded"));
    CHECK(runs.checkpoints() ==
          std::set<std::string>{"step-2", "step-4", "step-6.superseded", "step-8.superseded"});
    CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 4);
    CHECK(observe::read_metrics(runs.folder().metrics_file().string() + ".1").size() == 8);
  }
  SECTION("to an older step, which stays until there are newer ones") {
    job.checkpoint += resume_from(runs.step(6));
    job.steps = 8;
    runs.run(job);
    CHECK(runs.checkpoints() == std::set<std::string>{"step-6", "step-8", "step-8.superseded"});
    CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 8);
    job.checkpoint = "every = 2\nkeep = 2\n";
    job.steps = 10;
    runs.run(job);
    CHECK(runs.checkpoints() == std::set<std::string>{"step-8", "step-10", "step-8.superseded"});
  }
}

TEST_CASE("a job that has nothing to do says so and touches nothing") {
  Runs runs;
  Job job;
  job.steps = 4;
  job.checkpoint = "every = 2\n";
  runs.run(job);
  const Ran again = runs.run(job);
  CHECK(again.result.trained_steps == 0);
  CHECK_FALSE(again.result.last);
  CHECK_THAT(again.all(), Catch::Contains("nothing to do: step 4 of 4 is done"));
  job.steps = 1;
  job.checkpoint += resume_from(runs.step(2));
  CHECK_THAT(runs.run(job).all(), Catch::Contains("nothing to do: step 2 of 1 is done"));
  CHECK(runs.checkpoints() == std::set<std::string>{"step-2", "step-4"});
  CHECK(observe::read_metrics(runs.folder().metrics_file()).size() == 4);
}

TEST_CASE("PyTorch's index is left out of checkpoints of more parts than asked for") {
  Runs runs;
  Job job;
  job.steps = 4;
  const std::string async = GENERATE("", "async = true\n");
  job.checkpoint = "every = 2\nmetadata_parts = 1\n" + async;
  const Ran without = runs.run(job);
  CHECK_FALSE(fs::exists(runs.step(4) / ".metadata"));
  size_t notes = 0;
  for (const std::string& line : without.said) {
    notes += line.find("no .metadata for PyTorch was written") != std::string::npos ? 1 : 0;
  }
  CHECK(notes == 1);
  job.steps = 6;
  job.checkpoint = "metadata_parts = 0\n" + async;
  CHECK(runs.run(job).result.trained_steps == 2);  // training continues from the checkpoint
  CHECK(fs::exists(runs.step(6) / ".metadata"));
  job.steps = 8;
  job.checkpoint = async;
  const Ran with = runs.run(job);
  CHECK(fs::exists(runs.step(8) / ".metadata"));
  CHECK_THAT(with.all(), !Catch::Contains(".metadata"));
}

TEST_CASE("a job without a step saves what it began with") {
  Runs runs;
  Job job;
  job.steps = 0;
  CHECK(runs.run(job).result.checkpoint == runs.step(0));
  job.steps = 2;
  CHECK_THAT(runs.run(job).all(), Catch::Contains("step-0, step 0"));
}

TEST_CASE("a checkpoint says which jobs led to it") {
  Runs runs;
  Job job;
  job.steps = 2;
  job.id = "first";
  runs.run(job);
  job.id = "second";
  job.steps = 4;
  job.checkpoint = "every = 1\n";
  runs.run(job);
  job.checkpoint = resume_from(runs.step(3));  // a restart of the job "second"
  job.steps = 5;
  runs.run(job);
  const std::vector<run_folder::JobStep> wanted = {{"first", 0}, {"second", 2}};
  CHECK((run_folder::read_checkpoint_info(runs.step(5)).lineage == wanted));
  CHECK_FALSE(fs::exists(runs.step(4)));
}

}  // namespace am
