#include "calibrate/error_scale_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace am_calibrate {
namespace {

// The quantile to which scales are fitted. It is higher than 0.9, so that nine in ten runs that are
// not in the fit have errors within the scale.
constexpr double kQuantile = 0.93;
constexpr double kSoftness = 0.03;  // width of the pinball loss's smooth part
constexpr double kStiffness = 1.0;  // weight of the squared logarithm of a factor
constexpr double kLeastError = 1e-4;

// Returns the pinball loss at kQuantile, smoothed near 0 so that coordinate descent converges.
double pinball(double residual) {
  if (std::abs(residual) > 8.0 * kSoftness) {
    return residual > 0.0 ? kQuantile * residual : (kQuantile - 1.0) * residual;
  }
  return kSoftness * std::log1p(std::exp(residual / kSoftness)) - (1.0 - kQuantile) * residual;
}

// Returns the argument between -2.5 and 2.5 at which a convex function is least, by golden section.
template <typename Function>
double least(const Function& function) {
  constexpr double kSection = 0.381966;
  double low = -2.5, high = 2.5;
  for (int round = 0; round < 34; ++round) {
    const double left = low + (high - low) * kSection;
    const double right = high - (high - low) * kSection;
    if (function(left) < function(right)) {
      high = right;
    } else {
      low = left;
    }
  }
  return (low + high) / 2.0;
}

class ScaleFit {
 public:
  ScaleFit(const RunList& runs, const std::vector<double>& errors, const Kinds& kinds) {
    for (size_t i = 0; i < runs.size(); ++i) {
      residuals_.push_back(std::log(std::max(std::abs(errors[i]), kLeastError)) - base_);
      for (const std::string& kind : kinds(*runs[i])) runs_of_[kind].push_back(i);
    }
  }

  ErrorScale run() {
    constexpr int kMostSweeps = 30;
    if (residuals_.empty()) return {};
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double change = std::abs(move_base());
      for (const auto& [kind, members] : runs_of_) {
        change = std::max(change, std::abs(move_factor(members, logs_[kind])));
      }
      if (change < 1e-3) break;
    }
    ErrorScale scale{std::exp(base_), {}};
    for (const auto& [kind, log] : logs_) scale.factors[kind] = std::exp(log);
    return scale;
  }

 private:
  double move_base() {
    const double by = least([&](double change) {
      double sum = 0.0;
      for (const double residual : residuals_) sum += pinball(residual - change);
      return sum;
    });
    base_ += by;
    for (double& residual : residuals_) residual -= by;
    return by;
  }

  double move_factor(const std::vector<size_t>& members, double& log) {
    const double by = least([&](double change) {
      double sum = kStiffness * (log + change) * (log + change);
      for (const size_t i : members) sum += pinball(residuals_[i] - change);
      return sum;
    });
    log += by;
    for (const size_t i : members) residuals_[i] -= by;
    return by;
  }

  double base_ = std::log(0.2);
  std::map<std::string, double> logs_;  // logarithm of each kind's factor
  std::map<std::string, std::vector<size_t>> runs_of_;
  std::vector<double> residuals_;  // log|error| minus the logarithm of the scale
};

}  // namespace

std::vector<std::string> kinds_of(const MeasuredRun& run) {
  std::vector<std::string> kinds = am::predict::kinds_of(run.workload, run.gpu);
  if (run.test_job) kinds.emplace_back("test job");
  return kinds;
}

std::vector<std::string> kinds_of_new(const MeasuredRun& run) {
  return am::predict::kinds_of_new(run.workload, run.gpu);
}

RunErrors subset(const RunList& runs, const std::vector<double>& errors,
                 const std::function<bool(const MeasuredRun&)>& keeps) {
  RunErrors kept;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!keeps(*runs[i])) continue;
    kept.runs.push_back(runs[i]);
    kept.errors.push_back(errors[i]);
  }
  return kept;
}

ErrorScale fit_error_scale(const RunList& runs, const std::vector<double>& errors,
                           const Kinds& kinds) {
  return ScaleFit(runs, errors, kinds).run();
}

std::vector<bool> inside_interval(const RunList& runs, const std::vector<double>& errors,
                                  const std::function<std::string(const MeasuredRun&)>& part,
                                  const Kinds& kinds) {
  std::set<std::string> parts;
  for (const MeasuredRun* run : runs) parts.insert(part(*run));
  std::vector<bool> inside(runs.size());
  for (const std::string& name : parts) {
    const RunErrors others =
        subset(runs, errors, [&](const MeasuredRun& run) { return part(run) != name; });
    const ErrorScale scale = fit_error_scale(others.runs, others.errors, kinds);
    for (size_t i = 0; i < runs.size(); ++i) {
      if (part(*runs[i]) == name) inside[i] = std::abs(errors[i]) <= scale.of(kinds(*runs[i]));
    }
  }
  return inside;
}

}  // namespace am_calibrate
