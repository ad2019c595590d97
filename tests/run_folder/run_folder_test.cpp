#include "am/run_folder/run_folder.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "am/base/error.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::run_folder;

TEST_CASE("a run folder's paths") {
  const RunFolder run("runs/first");
  CHECK(run.plan_file() == "runs/first/plan.toml");
  CHECK(run.metrics_file() == "runs/first/metrics.jsonl");
  CHECK(run.control() == "runs/first/control");
  CHECK(run.log(3) == "runs/first/logs/rank-3.log");
  CHECK(run.checkpoint(200) == "runs/first/checkpoints/step-200");
}

TEST_CASE("creating a run folder twice is fine and leaves nothing else") {
  const TemporaryFolder folder;
  RunFolder::create(folder / "a/b");
  const RunFolder run = RunFolder::create(folder / "a/b");
  CHECK(std::filesystem::is_directory(run.logs()));
  CHECK(std::filesystem::is_directory(run.checkpoints()));
  const auto entries = std::filesystem::directory_iterator(run.root());
  CHECK(std::distance(begin(entries), end(entries)) == 2);
}

TEST_CASE("a run folder that cannot be is a clear error") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  for (const std::string& bad : std::vector<std::string>{
           (folder / "file").string(), (folder / "file/run").string(), "/proc/am-run"}) {
    INFO(bad);
    try {
      RunFolder::create(bad);
      FAIL("created");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kIo);
      CHECK_THAT(error.what(), Catch::StartsWith(bad));
    }
  }
}

TEST_CASE("checkpoints come in the order of their steps") {
  const TemporaryFolder folder;
  for (const char* name : {"step-10", "step-9", "step-100", "step-11.tmp", "step-", "step-1x",
                           "step--3", "other", ".step-7"}) {
    std::filesystem::create_directory(folder / name);
  }
  std::ofstream(folder / "step-500") << "a file";
  std::vector<int64_t> steps;
  for (const auto& checkpoint : list_checkpoints(folder.path())) steps.push_back(checkpoint.step);
  CHECK(steps == std::vector<int64_t>{9, 10, 100});
  CHECK(list_checkpoints(folder.path()).back().path == folder / "step-100");
}

TEST_CASE("no checkpoints") {
  const TemporaryFolder folder;
  CHECK(list_checkpoints(folder / "missing").empty());
  CHECK(list_checkpoints(folder.path()).empty());
  std::ofstream(folder / "file") << "x";
  CHECK_THROWS_AS(list_checkpoints(folder / "file"), Error);
}
