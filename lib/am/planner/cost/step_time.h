// The time of one optimizer step, from operations, bytes and the constants that measured runs gave.
//
//   const StepTime time = estimate_step_time(workload, gpu, constants);
//   time.seconds; time.bubble_fraction; time.bytes.tp;
//
// Note [Time model]: per layer and micro-batch, on one rank:
//   matrix products   operations / (peak * share), the share falling off for few tokens and narrow
//                     weights: 1 / (1 + T0/T + N0/N + K0/K)
//   attention         4 T S n d / tp operations forward, half of them when causal, 2.5 times
//   backward memory-bound      norms, activations, residuals: bytes over the memory's bandwidth
//   launching         a floor under all of it
//   recomputation     what a layer's checkpointing runs again, in its backward
//   communication     volumes over the bandwidth of the group's links (below), less what is hidden
// The pipeline's schedule is simulated with these durations; then gradients are reduced and the
// optimizer runs. Volumes: Megatron-LM's tensor parallelism (2 all-reduces of T h forward, 2
// backward), ring attention, expert all-to-all, ZeRO. A group's bandwidth is its links' where it
// fits into a link domain, else what its ranks of one node together have of the network.
#pragma once

#include "am/planner/cost/constants.h"
#include "am/planner/cost/hardware.h"
#include "am/planner/cost/pipeline_time.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

// What one rank sends in a step.
struct AxisBytes {
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;
};

struct StepTime {
  double seconds = 0;
  // What a rank's seconds go to: the average over stages, so that they add up to `seconds`.
  double products = 0, attention = 0, memory_bound = 0, launching = 0;
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;  // exposed communication
  double bubble = 0;                              // waiting for other stages
  double offload = 0;                             // exposed copies from and to the host
  double optimizer = 0;
  double fixed = 0;
  double bubble_fraction = 0;  // of the pipeline's time
  AxisBytes bytes;
};

// `order`: of this job's pipeline, where many jobs share one; null: made here.
StepTime estimate_step_time(const Workload& workload, const Gpu& gpu,
                            const CostConstants& constants, const PipelineOrder* order = nullptr);

// The same with least_seconds() in place of a simulation: never more than the above, in
// microseconds instead of milliseconds.
StepTime least_step_time(const Workload& workload, const Gpu& gpu, const CostConstants& constants);

// One run of the job's schedule.
pipeline::PipelineShape pipeline_shape(const Workload& workload);

}  // namespace am::planner
