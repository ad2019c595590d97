// Fits the time model to measured runs, and tests the errors of the built-in constants.
#include "calibrate/fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "am/base/file.h"
#include "am/predict/time/step_time.h"
#include "calibrate/measured_memory.h"

using namespace am;
using namespace am::predict;

namespace am_calibrate {
namespace {

TEST_CASE("fitting finds the constants that made the runs") {
  const MeasuredRuns measured = built_in_runs();
  CostConstants truth;
  truth.values[static_cast<size_t>(Constant::kGemmHopper)] = 0.66;
  truth.values[static_cast<size_t>(Constant::kHiddenTraffic)] = 31.0;
  truth.implementations["nemo"] = {0.9, 1.0};
  std::vector<MeasuredRun> made;
  for (const MeasuredRun& run : measured) {
    if (!run.seconds || run.workload.pp > 1.0 || made.size() >= 150) continue;
    made.push_back(run);
    made.back().seconds = estimate_step_time(run.workload, run.gpu, truth).seconds;
  }
  RunList list;
  for (const MeasuredRun& run : made) list.push_back(&run);
  const CostConstants found = fit(list);
  CHECK(summary(log_errors(list, found)).nine_in_ten < 0.02);
  CHECK(found[Constant::kGemmHopper] == Approx(0.66).epsilon(0.05));
}

TEST_CASE("the constants that are built in predict the runs that are built in") {
  const MeasuredRuns runs = built_in_runs();
  const RunList list = timed(runs);
  REQUIRE(list.size() > 500);
  const ErrorSummary time = summary(log_errors(list, default_calibration().constants));
  CHECK(time.median < 0.08);
  CHECK(time.mean < 0.12);
  std::vector<double> memory;
  for (const MeasuredRun& run : runs) {
    if (!run.memory_bytes || run.out_of_memory) continue;
    memory.push_back(std::log(predicted_bytes(run) / *run.memory_bytes));
  }
  REQUIRE(memory.size() > 250);
  CHECK(summary(memory).median < 0.08);
  CHECK(summary(memory).nine_in_ten < 0.16);
}

TEST_CASE("a calibration survives its file") {
  Calibration calibration;
  calibration.constants.values[static_cast<size_t>(Constant::kGemmHopper)] = 0.66;
  calibration.constants.implementations["nemo"] = {0.9, 1.2};
  calibration.constants.sites["ours"] = 1.5;
  calibration.runs = 12;
  calibration.time_90 = 0.25;
  const auto file = std::filesystem::temp_directory_path() / "am_calibration_test.toml";
  write_file_atomically(file, to_toml(calibration));
  Diagnostics found;
  const auto read = load_calibration(file, {}, found);
  std::filesystem::remove(file);
  REQUIRE(read.has_value());
  CHECK(read->constants.values == calibration.constants.values);
  CHECK(read->constants.of("nemo").compute == 0.9);
  CHECK(read->constants.of("nemo").host == 1.2);
  CHECK(read->constants.at("ours") == 1.5);
  CHECK(read->runs == 12);
  CHECK(read->time_90 == 0.25);
}

}  // namespace
}  // namespace am_calibrate
