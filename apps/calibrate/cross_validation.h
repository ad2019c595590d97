// Evaluates the time model on runs that were held out of the fit.
//
//   const std::vector<double> errors = held_out_errors(runs, fold_of_layout, again(constants));
//   summary(errors).median;
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/error_scale_fit.h"
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
// source_of() makes one fold of all runs that one source (a publication, for example) reports;
// product_of_run() makes one fold of all runs on one GPU product.
std::string fold_of_layout(const MeasuredRun& run);
std::string source_of(const MeasuredRun& run);
std::string product_of_run(const MeasuredRun& run);

// Returns the runs that are not functional tests, and their errors.
RunErrors without_tests(const RunList& runs, const std::vector<double>& errors);

// Statistics of |predicted / measured - 1| over runs.
struct ErrorSummary {
  size_t runs = 0;
  double median = 0, mean = 0, nine_in_ten = 0;  // nine_in_ten is the 90th percentile
};
// Returns the statistics for errors log(predicted / measured), for example those that
// held_out_errors() returns.
ErrorSummary summary(const std::vector<double>& log_errors);

// A fit, and the errors of its cross-validations, log(predicted / measured seconds) of each run.
struct Fitted {
  Calibration calibration;
  std::vector<double> of_layouts;  // by fold_of_layout()
  std::vector<double> of_sources;  // by source_of()
  std::vector<double> of_gpus;     // by product_of_run(); empty after calibrate_gpus()
};

// Return constants fitted to `runs`, which all have a step time. calibrate() fits all constants and
// the sizes of errors. calibrate_gpus() keeps the built-in constants and fits only the factors of
// the GPUs that occur in the runs, so that a few runs of one's own cluster suffice.
Fitted calibrate(const RunList& runs);
Fitted calibrate_gpus(const RunList& runs);

}  // namespace am_calibrate
