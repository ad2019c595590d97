// Fits the constants of the time model (predict::CostConstants) to measured runs.
//
//   const CostConstants constants = fit(timed(runs));
//   log_errors(timed(runs), constants);
//
// The objective is the Huber loss of log(predicted / measured seconds), plus the squared distance
// of each constant's logarithm from its prior, in units of the prior's spread. For each source of
// runs (a publication, for example), a factor of all its times is fitted too, but not returned. All
// runs of one layout together have the weight of one run. The solver is Levenberg-Marquardt with
// finite differences.
#pragma once

#include <vector>

#include "am/predict/time/constants.h"
#include "am/predict/time/measured_runs.h"

namespace am_calibrate {

using am::predict::CostConstants;
using am::predict::MeasuredRun;
using am::predict::MeasuredRuns;

using RunList = std::vector<const MeasuredRun*>;

// Returns the runs that have a measured step time.
RunList timed(const MeasuredRuns& runs);

// Returns the constants, all fitted to the runs. The solver begins at `start`, or at the priors if
// `start` is null.
CostConstants fit(const RunList& runs, const CostConstants* start = nullptr);
// Returns `base` with the factors (GpuFactors) of each GPU that occurs in the runs, fitted to the
// runs. Predictions for other GPUs do not change.
CostConstants fit_gpus(const RunList& runs, const CostConstants& base);

// Returns log(predicted / measured seconds) of each run.
std::vector<double> log_errors(const RunList& runs, const CostConstants& constants);

}  // namespace am_calibrate
