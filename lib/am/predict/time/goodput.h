// Cost of failures, and the best number of steps between checkpoints. Goodput is the fraction of a
// job's time that it spends on steps that no failure undoes.
//
//   const auto losses = failure_losses(plan, layout, gpu);          // rates from [cluster]
//   const SaveInterval best = best_interval(step_seconds, *losses);
//   best.steps;            // checkpoint.every
//   best.goodput;          // 0.96
//
// Note [Goodput]: failures come at random with a mean time M between them. A job saves a checkpoint
// after each interval of work T. The save blocks the job for the time D. An asynchronous save is
// usable only when it is on the disk, a time L after D. A restart takes the time R from the failure
// to the first new step; the job may fail again in R. The time from one failure to the next is
// M e^(R/M) on average. In this time an interval counts if its save ends at least L before the
// failure; on average, e^(-L/M) / (e^((T + D)/M) - 1) intervals do. The goodput is therefore
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

// Times in seconds, and the size of a checkpoint.
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

// Computes the losses from [cluster] hours_between_failures, restart_minutes and storage_gb_per_s.
// All ranks together write at the storage's rate; an asynchronous save blocks training only while
// each rank copies its part of the checkpoint to the host. Requires states_failures().
FailureLosses failure_losses(const config::Plan& plan, double checkpoint_bytes, int64_t world_size,
                             const cluster::Gpu& gpu);
// Returns nullopt if states_failures() is false.
std::optional<FailureLosses> failure_losses(const config::Plan& plan, const layout::Layout& layout,
                                            const cluster::Gpu& gpu);

// Returns the goodput of a job that saves after each `work` seconds of steps (more than 0), by the
// formula of Note [Goodput].
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
  SaveInterval planned;  // the plan's checkpoint.every; if it is 0, one save after the last step
  SaveInterval best;     // result of best_interval()
  double seconds = 0.0;  // time of all steps and failures with the interval `planned`
};
// `steps`: number of steps of the job; less than 1 counts as 1. Returns nullopt if
// states_failures() is false.
std::optional<JobForecast> forecast(const config::Plan& plan, const layout::Layout& layout,
                                    const cluster::Gpu& gpu, double step_seconds, int64_t steps);

}  // namespace am::predict
