// Fits the constants of the time model (predict::CostConstants) to measured runs, and evaluates the
// model on held-out runs.
//
//   const CostConstants constants = fit(timed(runs));
//   summary(log_errors(timed(runs), constants)).median;
//
// The objective is the Huber loss of log(predicted / measured seconds), plus the squared distance
// of each constant's logarithm from its prior, in units of the prior's spread. All runs of one
// layout together have the weight of one run. The solver is Levenberg-Marquardt with finite
// differences.
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

// Returns constants that are all fitted to the runs. The solver begins at `start`; null: at the
// priors.
CostConstants fit(const RunList& runs, const CostConstants* start = nullptr);
// Returns `base` with factors of the GPUs of the runs (GpuFactors) fitted to the runs. Predictions
// for other GPUs do not change.
CostConstants fit_gpus(const RunList& runs, const CostConstants& base);

// Fits constants to runs, for a cross-validation. again() fits all constants and begins at `start`;
// again_of_gpus() fits factors of GPUs to the built-in constants.
using FitFunction = std::function<CostConstants(const RunList&)>;
FitFunction again(const CostConstants& start);
FitFunction again_of_gpus();

// Returns log(predicted / measured seconds) of each run.
std::vector<double> log_errors(const RunList& runs, const CostConstants& constants);

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
// fits all constants; calibrate_gpus() fits factors of the GPUs of the runs to the built-in
// constants, so that a few runs of one's own cluster suffice.
Calibration calibrate(const MeasuredRuns& runs);
Calibration calibrate_gpus(const MeasuredRuns& runs);

// Returns the calibration as the text of a TOML file, which load_calibration() reads: only the
// factors of GPUs if it has any, otherwise all constants.
std::string to_toml(const Calibration& calibration);

}  // namespace am_calibrate
