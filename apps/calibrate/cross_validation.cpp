#include "calibrate/cross_validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "am/predict/time/evidence.h"

namespace am_calibrate {
namespace {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

// Cross-validates `fit_to`, once over layouts and once over sources. Sets the errors in `fitted`,
// and in its calibration the number of runs and the quantiles of the absolute errors.
void set_held_out(const RunList& runs, const FitFunction& fit_to, Fitted& fitted) {
  const auto sizes = [](std::vector<double> errors) {
    for (double& error : errors) error = std::abs(error);
    return errors;
  };
  Calibration& calibration = fitted.calibration;
  calibration.runs = static_cast<double>(runs.size());
  fitted.of_layouts = held_out_errors(runs, fold_of_layout, fit_to);
  calibration.time_median = quantile(sizes(fitted.of_layouts), 0.5);
  calibration.time_90 = quantile(sizes(fitted.of_layouts), 0.9);
  fitted.of_sources = held_out_errors(runs, source_of, fit_to);
  calibration.time_median_unseen = quantile(sizes(fitted.of_sources), 0.5);
  calibration.time_90_unseen = quantile(sizes(fitted.of_sources), 0.9);
}

// Returns a scale for runs of a new source or on a new GPU, fitted to the errors of all runs that
// are not functional tests.
ErrorScale scale_of_new(const RunList& runs, const std::vector<double>& errors) {
  const RunErrors kept = without_tests(runs, errors);
  return fit_error_scale(kept.runs, kept.errors, kinds_of_new);
}

}  // namespace

std::vector<double> held_out_errors(const RunList& runs,
                                    const std::function<std::string(const MeasuredRun&)>& part,
                                    const FitFunction& fit_to) {
  std::map<std::string, std::vector<size_t>> parts;
  for (size_t i = 0; i < runs.size(); ++i) parts[part(*runs[i])].push_back(i);
  std::vector<double> errors(runs.size(), 0.0);
  for (const auto& [name, held_out] : parts) {
    RunList others;
    for (const MeasuredRun* run : runs) {
      if (part(*run) != name) others.push_back(run);
    }
    RunList own;
    for (const size_t i : held_out) own.push_back(runs[i]);
    const std::vector<double> found = log_errors(own, fit_to(others));
    for (size_t i = 0; i < held_out.size(); ++i) errors[held_out[i]] = found[i];
  }
  return errors;
}

// Returns the run's fold, "0" to "4": a hash of the layout's label, modulo 5. The hash is FNV-1a,
// because std::hash differs between standard libraries.
std::string fold_of_layout(const MeasuredRun& run) {
  uint32_t hash = 2166136261U;
  for (const char c : run.group) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return std::to_string(hash % 5);
}

std::string source_of(const MeasuredRun& run) { return run.source; }

std::string product_of_run(const MeasuredRun& run) {
  return std::string(am::predict::product_of(run.gpu));
}

RunErrors without_tests(const RunList& runs, const std::vector<double>& errors) {
  return subset(runs, errors, [](const MeasuredRun& run) { return !run.test_job; });
}

ErrorSummary summary(const std::vector<double>& log_errors) {
  std::vector<double> sizes;
  double sum = 0.0;
  for (const double error : log_errors) {
    sizes.push_back(std::abs(std::expm1(error)));
    sum += sizes.back();
  }
  ErrorSummary result;
  result.runs = sizes.size();
  if (sizes.empty()) return result;
  result.mean = sum / static_cast<double>(sizes.size());
  result.median = quantile(sizes, 0.5);
  result.nine_in_ten = quantile(std::move(sizes), 0.9);
  return result;
}

Fitted calibrate(const RunList& runs) {
  Fitted fitted;
  Calibration& calibration = fitted.calibration;
  calibration.constants = fit(runs);
  const FitFunction fit_to = again(calibration.constants);
  set_held_out(runs, fit_to, fitted);
  calibration.errors_of_layouts = fit_error_scale(runs, fitted.of_layouts, kinds_of);
  calibration.errors_of_sources = scale_of_new(runs, fitted.of_sources);
  fitted.of_gpus = held_out_errors(runs, product_of_run, fit_to);
  calibration.errors_of_gpus = scale_of_new(runs, fitted.of_gpus);
  return fitted;
}

Fitted calibrate_gpus(const RunList& runs) {
  Fitted fitted;
  fitted.calibration = am::predict::default_calibration();
  fitted.calibration.constants = fit_gpus(runs, fitted.calibration.constants);
  set_held_out(runs, again_of_gpus(), fitted);
  return fitted;
}

FitFunction again(const CostConstants& start) {
  return [start](const RunList& runs) { return fit(runs, &start); };
}

FitFunction again_of_gpus() {
  return [](const RunList& runs) {
    return fit_gpus(runs, am::predict::default_calibration().constants);
  };
}

}  // namespace am_calibrate
