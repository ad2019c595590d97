#include "calibrate/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "am/predict/time/step_time.h"

namespace am_calibrate {
namespace {

using am::predict::Constant;
using am::predict::ConstantSpec;
using am::predict::kConstants;
using am::predict::PipelineOrder;
using am::predict::spec_of;
using am::predict::StepTime;

// Standard deviation of log(predicted / measured seconds) that is expected as noise.
constexpr double kSpreadOfRuns = 0.07;
// Residual, in units of kSpreadOfRuns, beyond which the Huber loss grows linearly.
constexpr double kBend = 1.5;
// Standard deviations that the priors assume for the logarithms of fitted factors. kSpreadOfCompute
// is for the compute rates of an implementation. kSpreadOfHost is for the host overhead of an
// implementation, a site or a GPU. kSpreadOfSource is for all times that one source reports.
constexpr double kSpreadOfCompute = 0.12;
constexpr double kSpreadOfHost = 0.7;
constexpr double kSpreadOfSource = 0.04;
// Spreads of the priors of a GPU's factors, in the order of kGpuFactors. Before a GPU is measured,
// its rates may differ by half from those of its generation, and its launch times by more.
constexpr std::array<double, am::predict::kGpuFactors.size()> kGpuFactorSpreads = {
    0.5, kSpreadOfHost, 0.5};

// A fitted parameter: the logarithm of a positive member of CostConstants.
struct Slot {
  std::function<double&(CostConstants&)> member;
  double prior = 1.0;   // expected value of the member
  double spread = 1.0;  // standard deviation of log(member / prior)
};

// The vector x of fitted parameters: the slots, and the logarithm of a factor for each source,
// because all runs of a source may be a little faster or slower than other runs. Parameters::to()
// converts x to constants, without the factors of sources.
class Parameters {
 public:
  // `base`: constants that are not fitted.
  Parameters(std::vector<Slot> slots, const RunList& runs, CostConstants base)
      : slots_(std::move(slots)), base_(std::move(base)) {
    std::set<std::string> sources;
    for (const MeasuredRun* run : runs) sources.insert(run->source);
    sources_.assign(sources.begin(), sources.end());
  }

  // Returns the index in x of the factor of the run's source.
  size_t place_of_source(const MeasuredRun& run) const {
    const auto at = std::lower_bound(sources_.begin(), sources_.end(), run.source);
    return slots_.size() + static_cast<size_t>(at - sources_.begin());
  }

  std::vector<double> from(CostConstants constants) const {
    std::vector<double> x;
    for (const Slot& slot : slots_) x.push_back(std::log(slot.member(constants)));
    x.resize(x.size() + sources_.size(), 0.0);
    return x;
  }

  CostConstants to(const std::vector<double>& x) const {
    CostConstants constants = base_;
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].member(constants) = std::exp(x[i]);
    return constants;
  }

  // Returns the distance of x[i] from its prior, in units of the prior's spread.
  double pull(const std::vector<double>& x, size_t i) const {
    const double prior = i < slots_.size() ? std::log(slots_[i].prior) : 0.0;
    return (x[i] - prior) * stiffness(i);
  }
  double stiffness(size_t i) const {
    return 1.0 / (i < slots_.size() ? slots_[i].spread : kSpreadOfSource);
  }

 private:
  std::vector<Slot> slots_;
  std::vector<std::string> sources_;
  CostConstants base_;
};

// Returns the distinct results of `name` for the runs, sorted.
std::set<std::string> names_of(const RunList& runs,
                               const std::function<std::string(const MeasuredRun&)>& name) {
  std::set<std::string> names;
  for (const MeasuredRun* run : runs) names.insert(name(*run));
  return names;
}

// Returns the parameters of a fit of everything: the cost constants, two factors for each
// implementation and one for each site (cluster of a published run).
Parameters all_constants(const RunList& runs) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < kConstants; ++i) {
    const ConstantSpec& spec = spec_of(static_cast<Constant>(i));
    slots.push_back(
        {[i](CostConstants& all) -> double& { return all.values[i]; }, spec.prior, spec.spread});
  }
  for (const std::string& name : names_of(runs, [](const MeasuredRun& run) {
         return std::string(run.workload.implementation->name);
       })) {
    const auto factors = [name](CostConstants & all) -> auto& { return all.implementations[name]; };
    slots.push_back({[factors](CostConstants& all) -> double& { return factors(all).compute; }, 1.0,
                     kSpreadOfCompute});
    slots.push_back({[factors](CostConstants& all) -> double& { return factors(all).host; }, 1.0,
                     kSpreadOfHost});
  }
  for (const std::string& name :
       names_of(runs, [](const MeasuredRun& run) { return run.workload.site; })) {
    if (name.empty()) continue;
    slots.push_back({[name](CostConstants& all) -> double& {
                       return all.sites.try_emplace(name, 1.0).first->second;
                     },
                     1.0, kSpreadOfHost});
  }
  return {std::move(slots), runs, CostConstants()};
}

// Returns the parameters of a fit of GpuFactors, for each GPU that occurs in `runs`. All other
// constants are those of `base`.
Parameters factors_of_gpus(const RunList& runs, const CostConstants& base) {
  std::vector<Slot> slots;
  for (const std::string& name :
       names_of(runs, [](const MeasuredRun& run) { return run.gpu.name; })) {
    for (size_t i = 0; i < kGpuFactorSpreads.size(); ++i) {
      const auto member = am::predict::kGpuFactors[i].second;
      slots.push_back(
          {[name, member](CostConstants& all) -> double& { return all.gpus[name].*member; }, 1.0,
           kGpuFactorSpreads[i]});
    }
  }
  return {std::move(slots), runs, base};
}

// Returns the solution of a * x = b by Cholesky decomposition. `a` is a symmetric positive definite
// matrix, row-major.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

// A measured run with the order of its pipeline schedule (null without pipeline parallelism). The
// order does not depend on the constants and is therefore computed once.
struct Prepared {
  const MeasuredRun* run;
  std::shared_ptr<const PipelineOrder> order;
  double weight = 1.0;  // factor of the residual: 1 / sqrt(number of runs of the layout)
  size_t source = 0;    // Parameters::place_of_source() of the run

  double log_error(const CostConstants& constants) const {
    const StepTime time = estimate_step_time(run->workload, run->gpu, constants, order.get());
    return std::log(time.seconds / *run->seconds);
  }
};

std::vector<Prepared> prepare(const RunList& runs) {
  std::map<std::string, double> of_layout;
  for (const MeasuredRun* run : runs) of_layout[run->group] += 1.0;
  std::map<std::string, std::shared_ptr<const PipelineOrder>> orders;
  std::vector<Prepared> prepared;
  for (const MeasuredRun* run : runs) {
    std::shared_ptr<const PipelineOrder> order;
    if (run->workload.pp > 1.0) {
      const auto shape = pipeline_shape(run->workload);
      auto& shared =
          orders[shape.schedule + " " + std::to_string(shape.pp) + " " +
                 std::to_string(shape.virtual_stages) + " " + std::to_string(shape.microbatches)];
      if (!shared) shared = std::make_shared<const PipelineOrder>(shape);
      order = shared;
    }
    prepared.push_back(
        {.run = run, .order = order, .weight = 1.0 / std::sqrt(of_layout[run->group])});
  }
  return prepared;
}

class ConstantsFit {
 public:
  ConstantsFit(const RunList& runs, Parameters parameters)
      : runs_(prepare(runs)), parameters_(std::move(parameters)) {
    for (Prepared& run : runs_) run.source = parameters_.place_of_source(*run.run);
  }

  CostConstants run(const CostConstants& start) {
    constexpr int kMostRounds = 40;
    std::vector<double> x = parameters_.from(start);
    std::vector<double> residuals = this->residuals(x);
    double cost = this->cost(x, residuals);
    double damping = 1e-2;
    for (int round = 0; round < kMostRounds; ++round) {
      build(x, residuals);
      bool better = false;
      double gain = 0.0;
      for (int attempt = 0; attempt < 6 && !better; ++attempt) {
        std::vector<double> next = step(x, damping);
        std::vector<double> there = this->residuals(next);
        const double there_cost = this->cost(next, there);
        if (there_cost < cost) {
          gain = cost - there_cost;
          x = std::move(next);
          residuals = std::move(there);
          cost = there_cost;
          damping = std::max(damping / 4.0, 1e-7);
          better = true;
        } else {
          damping *= 6.0;
        }
      }
      if (!better || gain < 1e-4 * cost) break;
    }
    return parameters_.to(x);
  }

 private:
  std::vector<double> residuals(const std::vector<double>& x) const {
    const CostConstants constants = parameters_.to(x);
    std::vector<double> out;
    out.reserve(runs_.size());
    for (const Prepared& run : runs_) {
      out.push_back((run.log_error(constants) + x[run.source]) / kSpreadOfRuns);
    }
    return out;
  }

  // Returns the weight of a residual r in iteratively reweighted least squares for the Huber loss:
  // 1 up to kBend, then kBend / |r|.
  static double bend(double residual) {
    const double size = std::abs(residual);
    return size <= kBend ? 1.0 : kBend / size;
  }
  double cost(const std::vector<double>& x, const std::vector<double>& residuals) const {
    double sum = 0.0;
    for (size_t i = 0; i < residuals.size(); ++i) {
      const double size = std::abs(residuals[i]);
      const double own = size <= kBend ? size * size : kBend * (2.0 * size - kBend);
      sum += own * runs_[i].weight * runs_[i].weight;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double pull = parameters_.pull(x, i);
      sum += pull * pull;
    }
    return sum;
  }

  // Computes the normal equations at x (`normal_` and `gradient_`) from the residuals, weighted by
  // bend(), and from the priors.
  void build(const std::vector<double>& x, const std::vector<double>& residuals) {
    constexpr double kDifference = 1e-4;
    const size_t n = x.size();
    std::vector<std::vector<double>> columns;
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> moved = x;
      moved[i] += kDifference;
      std::vector<double> column = this->residuals(moved);
      for (size_t r = 0; r < column.size(); ++r) {
        column[r] = (column[r] - residuals[r]) / kDifference;
      }
      columns.push_back(std::move(column));
    }
    normal_.assign(n * n, 0.0);
    gradient_.assign(n, 0.0);
    std::vector<double> weights;
    for (size_t r = 0; r < residuals.size(); ++r) {
      weights.push_back(bend(residuals[r]) * runs_[r].weight * runs_[r].weight);
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t r = 0; r < residuals.size(); ++r) {
        gradient_[i] += weights[r] * columns[i][r] * residuals[r];
      }
      for (size_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (size_t r = 0; r < residuals.size(); ++r) {
          sum += weights[r] * columns[i][r] * columns[j][r];
        }
        normal_[i * n + j] = normal_[j * n + i] = sum;
      }
      const double stiffness = parameters_.stiffness(i);
      normal_[i * n + i] += stiffness * stiffness;
      gradient_[i] += stiffness * parameters_.pull(x, i);
    }
  }

  std::vector<double> step(const std::vector<double>& x, double damping) const {
    constexpr double kLongest = 0.7;  // largest change of one parameter in one step of the solver
    std::vector<double> damped = normal_;
    for (size_t i = 0; i < x.size(); ++i) damped[i * x.size() + i] *= 1.0 + damping;
    const std::vector<double> change = solve(std::move(damped), gradient_);
    std::vector<double> next = x;
    for (size_t i = 0; i < x.size(); ++i) next[i] -= std::clamp(change[i], -kLongest, kLongest);
    return next;
  }

  std::vector<Prepared> runs_;
  Parameters parameters_;
  std::vector<double> normal_, gradient_;
};

}  // namespace

RunList timed(const MeasuredRuns& runs) {
  RunList list;
  for (const MeasuredRun& run : runs) {
    if (run.is_timed()) list.push_back(&run);
  }
  return list;
}

CostConstants fit(const RunList& runs, const CostConstants* start) {
  return ConstantsFit(runs, all_constants(runs)).run(start != nullptr ? *start : CostConstants());
}

CostConstants fit_gpus(const RunList& runs, const CostConstants& base) {
  return ConstantsFit(runs, factors_of_gpus(runs, base)).run(base);
}

std::vector<double> log_errors(const RunList& runs, const CostConstants& constants) {
  std::vector<double> errors;
  for (const Prepared& run : prepare(runs)) errors.push_back(run.log_error(constants));
  return errors;
}

}  // namespace am_calibrate
