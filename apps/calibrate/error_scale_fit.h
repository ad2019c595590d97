// Fits the size of prediction errors by kind of run (predict::ErrorScale) to the errors of held-out
// runs.
//
//   const auto errors = held_out_errors(runs, fold_of_layout, again(constants));
//   calibration.errors_of_layouts = fit_error_scale(runs, errors, kinds_of);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "am/predict/time/error_scale.h"
#include "calibrate/fit.h"

namespace am_calibrate {

using am::predict::ErrorScale;

// Return the kinds of a run, for example its GPU's architecture, as predict::kinds_of() and
// predict::kinds_of_new() do. kinds_of_new() is for runs of a new source or on a new GPU: it leaves
// out the GPU product and the implementation. kinds_of() adds "test job" for a functional test.
using Kinds = std::function<std::vector<std::string>(const MeasuredRun&)>;
std::vector<std::string> kinds_of(const MeasuredRun& run);
std::vector<std::string> kinds_of_new(const MeasuredRun& run);

// Runs, and log(predicted / measured seconds) of each.
struct RunErrors {
  RunList runs;
  std::vector<double> errors;
};
// Returns the runs for which `keeps` returns true, with their errors.
RunErrors subset(const RunList& runs, const std::vector<double>& errors,
                 const std::function<bool(const MeasuredRun&)>& keeps);

// Returns the scale that minimizes the pinball loss of log(|error| / scale), plus the squared
// logarithms of the scale's factors. The loss is that of the quantile 0.93, so that about nine in
// ten runs that are not in the fit have smaller errors. Without runs, returns the default scale.
// `errors`: log(predicted / measured seconds) of each run.
ErrorScale fit_error_scale(const RunList& runs, const std::vector<double>& errors,
                           const Kinds& kinds);

// Returns for each run whether its error is inside the interval of a scale that was fitted to the
// runs of all other parts. `part` returns the name of a run's part.
std::vector<bool> inside_interval(const RunList& runs, const std::vector<double>& errors,
                                  const std::function<std::string(const MeasuredRun&)>& part,
                                  const Kinds& kinds);

}  // namespace am_calibrate
