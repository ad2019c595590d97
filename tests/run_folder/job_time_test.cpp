// Tests how a job's seconds are divided into phases (starting, loading, steps, ...), over all
// attempts of the job.
#include "am/run_folder/job_time.h"

#include <catch2/catch.hpp>
#include <thread>

#include "am/run_folder/process_begin.h"

namespace am::run_folder {
namespace {

JobTime of_a_job() {
  JobTime time;
  time[Phase::kStarting] = 20.0;
  time[Phase::kLoading] = 10.0;
  time[Phase::kSaving] = 5.0;
  time.until = 1'000.0;
  time[Phase::kSteps] = 100.0;
  time.save(50);
  time[Phase::kSteps] = 200.0;
  time.save(100);
  time[Phase::kSteps] = 240.0;
  return time;
}

}  // namespace

TEST_CASE("steps that a failure undid are lost, and nothing else changes") {
  JobTime time = of_a_job();
  const double all = time.total();
  SECTION("from the newest checkpoint") {
    time.fail_back(100, 120, 0);
    CHECK(time[Phase::kSteps] == 200.0);
    CHECK(time[Phase::kStepsAgain] == 40.0);
    CHECK(time.steps_again == 20);
  }
  SECTION("from the one before it, twice") {
    time.fail_back(50, 120, 0);
    CHECK(time[Phase::kStepsAgain] == 140.0);
    CHECK(time.saved.size() == 1);
    time.fail_back(50, 50, 0);
    CHECK(time[Phase::kSteps] == 100.0);
    CHECK((time.failures == 2 && time.steps_again == 70));
  }
  SECTION("from one that is not known: its share") {
    time.fail_back(30, 120, 0);
    CHECK(time[Phase::kSteps] == 60.0);
  }
  SECTION("from the beginning") {
    time.fail_back(10, 120, 10);
    CHECK(time[Phase::kSteps] == 0.0);
    CHECK(time.steps_again == 110);
  }
  CHECK(time.total() == Approx(all));
  CHECK(time.failures >= 1);
}

TEST_CASE("a record keeps what the next attempt needs") {
  JobTime time = of_a_job();
  time.fail_back(100, 120, 0);
  const Json record = to_record(time);
  CHECK(record["goodput"].get<double>() == Approx(200.0 / 275.0));
  CHECK(record["seconds"]["steps_again"] == 40.0);
  CHECK(to_record(job_time_from(record)) == record);
  CHECK_THROWS_AS(job_time_from(Json::object()), Json::exception);
}

TEST_CASE("this process began a short while ago") {
  CHECK(own_process_began() < unix_time());
  CHECK(own_process_began() > unix_time() - 3600.0);
}

TEST_CASE("what is lost is said by its size") {
  JobTime time = of_a_job();
  time[Phase::kVisits] = 0.5;
  CHECK(goodput_text(time) == "87.1 %: 20.0 s starting, 10.0 s loading, 5.0 s saving");
  time.fail_back(100, 101, 0);
  CHECK(goodput_text(time) ==
        "72.6 %: 1 failure, 1 step again, 20.0 s starting, 10.0 s loading, 5.0 s saving");
  CHECK(goodput_text({}) == "0.0 %");
}

TEST_CASE("a clock's phases add up to the time since the job began") {
  JobClock first;
  const double began = unix_time() - 7.0;
  first.enter(Phase::kSteps);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  first.follow({}, began);
  first.save(1);
  JobTime left = first.time();
  CHECK(left[Phase::kSteps] >= 0.02);
  CHECK(left[Phase::kStarting] == Approx(7.0).margin(0.01));
  left.until -= 3.0;  // as if the first attempt had ended 3 s ago
  left[Phase::kStarting] -= 3.0;
  left.fail_back(1, 4, 0);
  JobClock second;
  second.enter(Phase::kLoading);
  second.follow(left, began);
  const JobTime& both = second.time();
  CHECK(both.total() == Approx(unix_time() - began).margin(1e-3));
  CHECK((both.failures == 1 && both.steps_again == 3));
  CHECK(both[Phase::kStarting] == Approx(7.0).margin(0.01));
}

}  // namespace am::run_folder
