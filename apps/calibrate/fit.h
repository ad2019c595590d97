// Fits the time model's constants to measured runs, and evaluates the model on held-out runs.
//
//   const CostConstants constants = fit(timed(runs));
//   summary(log_errors(timed(runs), constants)).median;
//
// The objective is the Huber loss of log(predicted / measured seconds), plus each constant's
// squared distance from its prior in units of its spread. Runs of one layout share a weight. The
// solver is Levenberg-Marquardt with finite differences.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "am/predict/time/constants.h"
#include "am/predict/time/measured_runs.h"

namespace am_calibrate {

using am::predict::Calibration;
using am::predict::CostConstants;
using am::predict::MeasuredRun;
using am::predict::MeasuredRuns;

using RunList = std::vector<const MeasuredRun*>;

// Returns the runs that have a measured step time.
RunList timed(const MeasuredRuns& runs);

CostConstants fit(const RunList& runs, const CostConstants* start = nullptr);

// Returns log(predicted / measured) of each run.
std::vector<double> log_errors(const RunList& runs, const CostConstants& constants);

// Returns log errors of runs under constants fitted without their fold; `part` returns the fold of
// a run.
std::vector<double> held_out_errors(const RunList& runs,
                                    const std::function<std::string(const MeasuredRun&)>& part,
                                    const CostConstants& start);
// Fold functions: five folds over layouts, and one fold per source.
std::string fold_of_layout(const MeasuredRun& run);
std::string source_of(const MeasuredRun& run);

// Statistics of |predicted / measured - 1| over runs.
struct ErrorSummary {
  size_t runs = 0;
  double median = 0, mean = 0, nine_in_ten = 0;
};
ErrorSummary summary(const std::vector<double>& log_errors);

// Fits all runs; the errors are those of held-out runs.
Calibration calibrate(const MeasuredRuns& runs);

// Returns the calibration as a file for load_calibration.
std::string to_toml(const Calibration& calibration);

}  // namespace am_calibrate
