// Evaluates the time model on runs that were held out of the fit.
//
//   const std::vector<double> errors = held_out_errors(runs, fold_of_layout, again(constants));
//   summary(errors).median;
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/fit.h"

namespace am_calibrate {

using am::predict::Calibration;

// A function that fits constants to runs, for cross-validation. The function that again() returns
// fits all constants and begins at `start`. The function that again_of_gpus() returns keeps the
// built-in constants and fits factors of GPUs.
using FitFunction = std::function<CostConstants(const RunList&)>;
FitFunction again(const CostConstants& start);
FitFunction again_of_gpus();

// Cross-validation: splits the runs into folds, predicts each fold with constants that `fit_to`
// fits to all other runs, and returns log(predicted / measured seconds) of each run. `part` returns
// the name of a run's fold.
std::vector<double> held_out_errors(const RunList& runs,
                                    const std::function<std::string(const MeasuredRun&)>& part,
                                    const FitFunction& fit_to);
// Functions to pass as `part`. fold_of_layout() distributes the layouts over five folds;
// source_of() makes one fold of all runs that one source (a publication, for example) reports.
std::string fold_of_layout(const MeasuredRun& run);
std::string source_of(const MeasuredRun& run);

// Statistics of |predicted / measured - 1| over runs.
struct ErrorSummary {
  size_t runs = 0;
  double median = 0, mean = 0, nine_in_ten = 0;  // nine_in_ten is the 90th percentile
};
ErrorSummary summary(const std::vector<double>& log_errors);

// Return constants fitted to the runs, with error statistics from held_out_errors(). calibrate()
// fits all constants. calibrate_gpus() keeps the built-in constants and fits only the factors of
// the GPUs that occur in the runs, so that a few runs of one's own cluster suffice.
Calibration calibrate(const MeasuredRuns& runs);
Calibration calibrate_gpus(const MeasuredRuns& runs);

}  // namespace am_calibrate
