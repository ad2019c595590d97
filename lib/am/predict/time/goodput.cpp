#include "am/predict/time/goodput.h"

#include <algorithm>
#include <cmath>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/config/optimizer.h"
#include "am/layout/precision.h"

namespace am::predict {

double checkpoint_bytes(const config::Plan& plan, const layout::Layout& layout) {
  const auto element =
      static_cast<double>(layout::dtype_size(layout::resolve_precision(plan).storage));
  double bytes = 0.0;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    const size_t states = parameter.trainable
                              ? config::state_names(plan.optimizer, parameter.orthogonalized).size()
                              : 0;
    bytes += as_double(numel(parameter.shape)) * element * static_cast<double>(1 + states);
  }
  return bytes;
}

bool states_failures(const config::ClusterSection& cluster) {
  return cluster.hours_between_failures > 0.0 && cluster.storage_gb_per_s > 0.0;
}

FailureLosses failure_losses(const config::Plan& plan, double checkpoint_bytes, int64_t world_size,
                             const cluster::Gpu& gpu) {
  const config::ClusterSection& cluster = plan.cluster;
  AM_ASSERT(states_failures(cluster), "[cluster] has the rates of failures and of the storage");
  const double ranks = as_double(world_size);
  FailureLosses losses;
  losses.between_failures = 3600.0 * cluster.hours_between_failures / ranks;
  losses.checkpoint_bytes = checkpoint_bytes;
  const double stored = losses.checkpoint_bytes / (1e9 * cluster.storage_gb_per_s);
  losses.restart = 60.0 * cluster.restart_minutes + stored;
  losses.save = stored;
  if (plan.checkpoint.async) {
    losses.save = losses.checkpoint_bytes / ranks / gpu.host_bandwidth;
    losses.until_saved = stored;
  }
  return losses;
}

std::optional<FailureLosses> failure_losses(const config::Plan& plan, const layout::Layout& layout,
                                            const cluster::Gpu& gpu) {
  if (!states_failures(plan.cluster)) return std::nullopt;
  return failure_losses(plan, checkpoint_bytes(plan, layout), layout.mesh.world_size(), gpu);
}

double expected_goodput(double work, const FailureLosses& losses) {
  const double mean = losses.between_failures;
  const double interval = work + losses.save;
  const double each = std::max(interval, losses.until_saved);
  // `each` includes the time for which a save waits for the previous save. The first save after a
  // start does not wait, so `late` leaves this time, `each` - `interval`, out once.
  const double late = losses.until_saved + interval - each;
  return work * std::exp(-(losses.restart + late) / mean) / (mean * std::expm1(each / mean));
}

// As the number of steps between saves grows, goodput rises to a single maximum and then falls.
// Bisection therefore finds the maximum: the first number of steps whose goodput is not lower than
// that of the next number.
SaveInterval best_interval(double step_seconds, const FailureLosses& losses) {
  const auto of = [&](int64_t steps) {
    return expected_goodput(as_double(steps) * step_seconds, losses);
  };
  // Intervals longer than between_failures + until_saved need not be tried: beyond this length,
  // goodput only falls.
  int64_t low = 1;
  int64_t high = 1 + static_cast<int64_t>(std::min(
                         1e12, (losses.between_failures + losses.until_saved) / step_seconds));
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (of(middle + 1) > of(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {low, of(low)};
}

std::optional<JobForecast> forecast(const config::Plan& plan, const layout::Layout& layout,
                                    const cluster::Gpu& gpu, double step_seconds, int64_t steps) {
  const auto losses = failure_losses(plan, layout, gpu);
  if (!losses) return std::nullopt;
  JobForecast job{.losses = *losses, .planned = {}, .best = best_interval(step_seconds, *losses)};
  const int64_t all = std::max<int64_t>(1, steps);
  job.planned.steps = plan.checkpoint.every > 0 ? plan.checkpoint.every : all;
  job.planned.goodput = expected_goodput(as_double(job.planned.steps) * step_seconds, *losses);
  job.seconds = as_double(all) * step_seconds / job.planned.goodput;
  return job;
}

}  // namespace am::predict
