// Fits the time model to runs whose times were computed from known constants, and bounds the errors
// of predictions for the built-in measured runs.
#include "calibrate/fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <optional>

#include "am/base/file.h"
#include "am/cluster/hardware.h"
#include "am/predict/time/step_time.h"
#include "calibrate/calibration_text.h"
#include "calibrate/cross_validation.h"
#include "calibrate/error_scale_fit.h"
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

TEST_CASE("six runs on a GPU that nobody measured mend it, and move no other GPU") {
  const Calibration& built_in = default_calibration();
  CostConstants truth = built_in.constants;
  truth.gpus["gh200"] = {.compute = 1.9, .host = 1.4, .links = 1.2};
  Diagnostics found;
  const auto gh200 = cluster::find_gpu("gh200", {}, {}, found);
  REQUIRE(gh200);
  const MeasuredRuns measured = built_in_runs();
  std::vector<MeasuredRun> made;
  for (const MeasuredRun& run : measured) {
    const bool fits = run.seconds && run.gpu.name == "h100-sxm" && !run.test_job;
    if (!fits || made.size() >= 60) continue;
    made.push_back(run);
    made.back().gpu = *gh200;
    made.back().source = "mine";
    made.back().seconds = estimate_step_time(run.workload, *gh200, truth).seconds;
  }
  REQUIRE(made.size() == 60);
  RunList six, others;
  for (size_t i = 0; i < made.size(); ++i) (i % 10 == 0 ? six : others).push_back(&made[i]);
  REQUIRE(six.size() == 6);
  const CostConstants mended = fit_gpus(six, built_in.constants);
  CHECK(summary(log_errors(others, built_in.constants)).median > 0.3);
  CHECK(summary(log_errors(others, mended)).median < 0.06);
  const RunList all = timed(measured);
  CHECK(log_errors(all, mended) == log_errors(all, built_in.constants));
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

// Writes `calibration` to a file and returns what load_calibration() reads from it.
std::optional<Calibration> read_back(const Calibration& calibration) {
  const auto file = std::filesystem::temp_directory_path() / "am_calibration_test.toml";
  write_file_atomically(file, to_toml(calibration));
  Diagnostics found;
  auto read = load_calibration(file, {}, found);
  std::filesystem::remove(file);
  return read;
}

TEST_CASE("the scale of errors is their quantile by kind of run") {
  std::vector<MeasuredRun> made;
  std::vector<double> errors;
  // Errors are uniform: up to 10 % on an A100, up to 40 % on a B200.
  for (int i = 0; i < 200; ++i) {
    const bool fast = i % 2 == 0;
    made.emplace_back();
    made.back().gpu.name = fast ? "a100-sxm" : "b200-sxm";
    made.back().gpu.architecture = fast ? "ampere" : "blackwell";
    made.back().group = std::to_string(i / 2);
    errors.push_back((fast ? 0.1 : 0.4) * (i / 2 + 1) / 100.0 * (i % 4 < 2 ? 1.0 : -1.0));
  }
  RunList runs;
  for (const MeasuredRun& run : made) runs.push_back(&run);
  const ErrorScale scale = fit_error_scale(runs, errors, kinds_of);
  CHECK(scale.of(kinds_of(made[0])) == Approx(0.093).epsilon(0.1));
  CHECK(scale.of(kinds_of(made[1])) == Approx(0.372).epsilon(0.1));
  const std::vector<bool> inside = inside_interval(runs, errors, fold_of_layout, kinds_of);
  const auto count = std::count(inside.begin(), inside.end(), true);
  CHECK(count > 0.85 * 200);
  CHECK(count < 0.97 * 200);
}

TEST_CASE("a calibration survives its file") {
  Calibration calibration;
  calibration.constants.values[static_cast<size_t>(Constant::kGemmHopper)] = 0.66;
  calibration.constants.implementations["nemo"] = {0.9, 1.2};
  calibration.constants.sites["ours"] = 1.5;
  calibration.runs = 12;
  calibration.errors_of_sources = {0.25, {{"experts", 1.5}, {"test job", 2.0}}};
  calibration.time_90 = 0.25;
  const auto read = read_back(calibration);
  REQUIRE(read.has_value());
  CHECK(read->constants.values == calibration.constants.values);
  CHECK(read->constants.of("nemo").compute == 0.9);
  CHECK(read->constants.of("nemo").host == 1.2);
  CHECK(read->constants.at("ours") == 1.5);
  CHECK(read->runs == 12);
  CHECK(read->errors_of_sources.of({"experts", "unknown"}) == Approx(0.375));
  CHECK(read->errors_of_sources.factors == calibration.errors_of_sources.factors);
  CHECK(read->time_90 == 0.25);
}

TEST_CASE("a calibration of GPUs keeps all built-in constants") {
  Calibration calibration = default_calibration();
  calibration.constants.gpus["my-gpu"] = {.compute = 1.5, .host = 0.8, .links = 2.0};
  calibration.time_90 = 0.25;
  const auto read = read_back(calibration);
  REQUIRE(read.has_value());
  CHECK(read->constants.values == default_calibration().constants.values);
  CHECK(read->constants.of_gpu("my-gpu").compute == 1.5);
  CHECK(read->constants.of_gpu("my-gpu").host == 0.8);
  CHECK(read->constants.of_gpu("my-gpu").links == 2.0);
  CHECK(read->constants.of_gpu("h100-sxm").links == 1.0);
  CHECK(read->time_90 == 0.25);
}

}  // namespace
}  // namespace am_calibrate
