// Fitting the constants to measured runs, and how far the model is from runs that it has not seen.
//
//   const CostConstants constants = fit(timed(runs));
//   summary(log_errors(timed(runs), constants)).median;
//
// The objective is the squared logarithm of predicted over measured seconds, bent to the absolute
// value for large errors (Huber), plus each constant's distance from its prior in units of its
// spread. Runs of one layout share a weight. Levenberg-Marquardt with differences.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "am/planner/cost/constants.h"
#include "am/planner/cost/measured_runs.h"

namespace am_calibrate {

using am::planner::Calibration;
using am::planner::CostConstants;
using am::planner::MeasuredRun;
using am::planner::MeasuredRuns;

using RunList = std::vector<const MeasuredRun*>;

// Runs whose step was timed.
RunList timed(const MeasuredRuns& runs);

CostConstants fit(const RunList& runs, const CostConstants* start = nullptr);

// log(predicted / measured) of each run.
std::vector<double> log_errors(const RunList& runs, const CostConstants& constants);

// Predictions of runs by constants that were fitted without them: `part` numbers the folds.
std::vector<double> held_out_errors(const RunList& runs,
                                    const std::function<std::string(const MeasuredRun&)>& part,
                                    const CostConstants& start);
// Five folds over layouts, and one for each source.
std::string fold_of_layout(const MeasuredRun& run);
std::string source_of(const MeasuredRun& run);

// |predicted / measured - 1| of many runs.
struct ErrorSummary {
  size_t runs = 0;
  double median = 0, mean = 0, nine_in_ten = 0;
};
ErrorSummary summary(const std::vector<double>& log_errors);

// The fit to all runs, with the errors of those that were held out.
Calibration calibrate(const MeasuredRuns& runs);

// As a file: what load_calibration reads.
std::string to_toml(const Calibration& calibration);

}  // namespace am_calibrate
