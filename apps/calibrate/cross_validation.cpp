#include "calibrate/cross_validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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

// Sets the number of runs, and the errors that cross-validation with `fit_to` finds: over folds of
// layouts (time_median, time_90) and over sources (the members with `unseen`).
void set_held_out(const RunList& runs, const FitFunction& fit_to, Calibration& calibration) {
  const auto sizes = [](std::vector<double> errors) {
    for (double& error : errors) error = std::abs(error);
    return errors;
  };
  calibration.runs = static_cast<double>(runs.size());
  const auto folds = sizes(held_out_errors(runs, fold_of_layout, fit_to));
  calibration.time_median = quantile(folds, 0.5);
  calibration.time_90 = quantile(folds, 0.9);
  const auto sources = sizes(held_out_errors(runs, source_of, fit_to));
  calibration.time_median_unseen = quantile(sources, 0.5);
  calibration.time_90_unseen = quantile(sources, 0.9);
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

// Returns the run's fold: a hash of its layout modulo 5. The hash is FNV-1a, which is equal on all
// platforms.
std::string fold_of_layout(const MeasuredRun& run) {
  uint32_t hash = 2166136261U;
  for (const char c : run.group) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return std::to_string(hash % 5);
}

std::string source_of(const MeasuredRun& run) { return run.source; }

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

Calibration calibrate(const MeasuredRuns& runs) {
  const RunList list = timed(runs);
  Calibration calibration;
  calibration.constants = fit(list);
  set_held_out(list, again(calibration.constants), calibration);
  return calibration;
}

Calibration calibrate_gpus(const MeasuredRuns& runs) {
  const RunList list = timed(runs);
  Calibration calibration = am::predict::default_calibration();
  calibration.constants = fit_gpus(list, calibration.constants);
  set_held_out(list, again_of_gpus(), calibration);
  return calibration;
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
