// Cost of failures and the best checkpoint interval. Goodput is the share of a job's time spent on
// steps that are not undone by a failure.
//
//   const auto losses = failure_losses(plan, layout, gpu);          // rates from [cluster]
//   const SaveInterval best = best_interval(step_seconds, *losses);
//   best.steps;            // checkpoint.every
//   best.goodput;          // 0.96
//
// Note [Goodput]: failures come at random with a mean time M between them. A job saves after each
// interval of work T. The save blocks it for D, and becomes usable L after that, when an
// asynchronous save is on the disk. From a failure to the first new step it takes R, in which it
// may fail again. In the time from one failure to the next, M e^(R/M) on average, an interval
// counts if it ends at least L before the failure: e^(-L/M) / (e^((T + D)/M) - 1) intervals. The
// goodput is therefore
//
//   T e^(-(R + L)/M) / (M (e^((T + D)/M) - 1))
//
// (if T + D < L, a save waits for the previous one: an interval then takes L, the first one T + D).
// For L = 0 this is J. T. Daly's complete model ("A higher order estimate of the optimum checkpoint
// interval for restart dumps", Future Generation Computer Systems 22, 2006, equation 20). Its best
// T is near J. W. Young's sqrt(2 D M) (Communications of the ACM 17, 1974) if that is much less
// than M.
#pragma once

#include <cstdint>
#include <optional>

#include "am/cluster/hardware.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::predict {

// Times in seconds.
struct FailureLosses {
  double between_failures = 0.0;  // mean time between failures of the job
  double restart = 0.0;           // from a failure to the first new step
  double save = 0.0;              // time that a save blocks training
  double until_saved = 0.0;       // from there until the checkpoint is usable
  double checkpoint_bytes = 0.0;
};

// Returns the bytes of all parameters and optimizer states, without replicas.
double checkpoint_bytes(const config::Plan& plan, const layout::Layout& layout);

// Returns whether both rates are set: that of failures and the storage's.
bool states_failures(const config::ClusterSection& cluster);

// Computes the losses from [cluster] hours_between_failures, restart_minutes and storage_gb_per_s.
// All ranks share the storage's rate; an asynchronous save blocks while each rank copies its part
// to the host. Requires states_failures().
FailureLosses failure_losses(const config::Plan& plan, double checkpoint_bytes, int64_t world_size,
                             const cluster::Gpu& gpu);
// Returns nothing without states_failures().
std::optional<FailureLosses> failure_losses(const config::Plan& plan, const layout::Layout& layout,
                                            const cluster::Gpu& gpu);

// Returns the goodput with a save after each `work` > 0 seconds of steps: Note [Goodput]. An
// asynchronous save waits until the previous one is on the disk.
double expected_goodput(double work, const FailureLosses& losses);

struct SaveInterval {
  int64_t steps = 1;
  double goodput = 0.0;
};
// Returns the number of steps between saves with the highest goodput.
SaveInterval best_interval(double step_seconds, const FailureLosses& losses);

// Forecast of a whole job with failures.
struct JobForecast {
  FailureLosses losses;
  SaveInterval planned;  // checkpoint.every; if 0, one save after train.max_steps
  SaveInterval best;
  double seconds = 0.0;  // time of train.max_steps with the planned saves
};
// Returns nothing if failure_losses() does.
std::optional<JobForecast> forecast(const config::Plan& plan, const layout::Layout& layout,
                                    const cluster::Gpu& gpu, double step_seconds);

}  // namespace am::predict
