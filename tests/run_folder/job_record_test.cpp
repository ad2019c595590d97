// Tests result.json in a run folder: a job never reports the numbers of an earlier job.
#include "am/run_folder/job_record.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "am/base/error.h"
#include "am/observe/metrics.h"
#include "support/temporary_folder.h"

namespace am::run_folder {
namespace {

void write_metrics(const RunFolder& run, int64_t resumed, int64_t last) {
  observe::JsonlSink sink(run.metrics_file(), resumed);
  for (int64_t step = resumed + 1; step <= last; ++step) {
    observe::StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 1.0 / static_cast<double>(step);
    sink.write(metrics);
  }
}

}  // namespace

TEST_CASE("an outcome is told to the job's launchers alone") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  CHECK_FALSE(read_outcome(run, "a").steps);
  write_metrics(run, 0, 20);
  CHECK_FALSE(read_outcome(run, "a").steps);  // no result.json, as in the folder of an older am-run
  JobRecord record = begin_record(run, {"a", {"a", "b"}}, 20);
  CHECK(read_outcome(run, "a").steps == 20);
  CHECK(read_outcome(run, "a").trained_steps == 0);
  CHECK_FALSE(read_outcome(run, "a").loss);
  write_metrics(run, 20, 22);  // then the job failed
  for (const char* launcher : {"a", "b"}) {
    const JobOutcome outcome = read_outcome(run, launcher);
    CHECK(outcome.steps == 22);
    CHECK(outcome.trained_steps == 2);
    CHECK(outcome.loss == Approx(1.0 / 22));
  }
  CHECK_FALSE(read_outcome(run, "c").steps);
  record.steps = 23;
  record.loss = 0.5;
  record.stopped = true;
  record.ended = true;
  write_record(run, record);
  const JobOutcome ended = read_outcome(run, "a");
  CHECK(ended.steps == 23);
  CHECK(ended.trained_steps == 3);
  CHECK(ended.loss == 0.5);
  CHECK(ended.stopped);
}

TEST_CASE("a restart counts from where its job began") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  begin_record(run, {"a", {"a"}}, 10);
  CHECK(begin_record(run, {"a", {"a"}}, 30).first_step == 10);
  CHECK(begin_record(run, {"b", {"b"}}, 30).first_step == 30);
}

TEST_CASE("a result that is none is as good as none") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  std::ofstream(run.result_file()) << "{\"job\": 3}";
  CHECK_FALSE(read_record(run));
  CHECK_FALSE(read_outcome(run, "a").steps);
}

TEST_CASE(
    "a job that failed has come as far as its record says, or its metrics where they know more") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  JobRecord record = begin_record(run, {"a", {"a"}}, 0);
  CHECK_THROWS_AS(write_record_in_place(RunFolder(folder / "none"), record), Error);
  write_metrics(run, 0, 3);
  record.steps = 5;  // later than the last metrics, as after a full disk
  record.loss = 0.25;
  write_record_in_place(run, record);
  CHECK(read_outcome(run, "a").steps == 5);
  CHECK(read_outcome(run, "a").loss == 0.25);
  record.steps = 2;  // earlier than the last metrics
  write_record_in_place(run, record);
  CHECK(read_outcome(run, "a").steps == 3);
  CHECK(read_outcome(run, "a").trained_steps == 3);
}

TEST_CASE("a job that goes on keeps the time of its failed attempts, another job does not") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  JobRecord record = begin_record(run, {"a", {"a"}}, 0);
  CHECK_FALSE(read_outcome(run, "a").time);
  record.steps = 5;
  record.time[Phase::kSteps] = 8.0;
  record.time.save(4);
  record.time[Phase::kSteps] = 10.0;
  record.time.until = 100.0;
  write_record_in_place(run, record);
  write_metrics(run, 0, 6);  // one step more than the record
  CHECK(read_outcome(run, "a").time->total() == 10.0);
  const JobTime time = begin_record(run, {"a", {"a"}}, 4).time;
  CHECK((time.failures == 1 && time.steps_again == 2));
  CHECK((time[Phase::kSteps] == 8.0 && time[Phase::kStepsAgain] == 2.0));
  CHECK(begin_record(run, {"b", {"b"}}, 4).time.total() == 0.0);
}

}  // namespace am::run_folder
