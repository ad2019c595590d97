// Cost of failures, and the best number of steps between checkpoints. Goodput is the fraction of a
// job's time that it spends on steps that no failure undoes.
//
//   const auto losses = failure_losses(plan, layout, gpu);          // rates from [cluster]
//   const SaveInterval best = best_interval(step_seconds, *losses);
//   best.steps;            // checkpoint.every
//   best.goodput;          // 0.96
//
// Note [Goodput]: failures come at random with a mean time M between them. A job saves a checkpoint
// after each interval of work T. The save blocks the job for the time D. An asynchronous save
// becomes usable only at a time L after the end of D, when the whole checkpoint is on the disk. A
// restart takes the time R from the failure to the first new step; the job may fail again during R.
// The time from one failure to the next is M e^(R/M) on average. An interval counts if its save
// ends at least L before the failure. On average, e^(-L/M) / (e^((T + D)/M) - 1) intervals count
// between two failures. The goodput is therefore
//
//   T e^(-(R + L)/M) / (M (e^((T + D)/M) - 1))
//
// If T + D < L, a save waits for the previous save: an interval then takes L, but the first
// interval takes T + D. For L = 0 the formula is J. T. Daly's complete model ("A higher order
// estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
// Systems 22, 2006, equation 20). If D is much less than M, the best T is near J. W. Young's sqrt(2
// D M) (Communications of the ACM 17, 1974).
#pragma once

#include <cstdint>
#include <optional>

#include "am/cluster/hardware.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"

namespace am::predict {

// The costs of a failure and of a save. Times are in seconds.
struct FailureLosses {
  double between_failures = 0.0;  // mean time between failures of the job
  double restart = 0.0;           // time from a failure to the first new step
  double save = 0.0;              // time for which a save blocks training
  double until_saved = 0.0;       // time from the end of `save` until the checkpoint is usable
  double checkpoint_bytes = 0.0;
};

// Returns the bytes of all parameters and optimizer states, without replicas.
double checkpoint_bytes(const config::Plan& plan, const layout::Layout& layout);

// Returns whether the plan has the rates that goodput needs: hours_between_failures and
// storage_gb_per_s of [cluster].
bool states_failures(const config::ClusterSection& cluster);

// Computes the losses from [cluster] hours_between_failures (of one GPU), restart_minutes and
// storage_gb_per_s. All ranks together write and read a checkpoint at the storage's rate. An
// asynchronous save blocks training only while each rank copies its part of the checkpoint to the
// host. Requires states_failures().
FailureLosses failure_losses(const config::Plan& plan, double checkpoint_bytes, int64_t world_size,
                             const cluster::Gpu& gpu);
// Computes the losses for a checkpoint of checkpoint_bytes(plan, layout). Returns nullopt if
// states_failures() is false.
std::optional<FailureLosses> failure_losses(const config::Plan& plan, const layout::Layout& layout,
                                            const cluster::Gpu& gpu);

// Returns the goodput of a job that saves after each `work` seconds of steps (more than 0), by the
// formula of Note [Goodput].
double expected_goodput(double work, const FailureLosses& losses);

struct SaveInterval {
  int64_t steps = 1;
  double goodput = 0.0;
};
// Returns the number of steps between saves that has the highest goodput, and this goodput.
SaveInterval best_interval(double step_seconds, const FailureLosses& losses);

// Forecast of a whole job with failures.
struct JobForecast {
  FailureLosses losses;
  SaveInterval planned;  // the plan's checkpoint.every; if it is 0, one save after the last step
  SaveInterval best;     // result of best_interval()
  double seconds = 0.0;  // time of the job with its saves and failures, with the interval `planned`
};
// Returns the forecast of a job with `steps` steps; less than 1 counts as 1. Returns nullopt if
// states_failures() is false.
std::optional<JobForecast> forecast(const config::Plan& plan, const layout::Layout& layout,
                                    const cluster::Gpu& gpu, double step_seconds, int64_t steps);

}  // namespace am::predict
