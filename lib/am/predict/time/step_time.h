// Time of one optimizer step, from FLOPs, bytes and constants fitted to measured runs.
//
//   const StepTime time = estimate_step_time(workload, gpu, constants);
//   time.seconds; time.bubble_fraction; time.bytes.tp;
//
// Note [Time model]: per layer and micro-batch, on one rank:
//   matmuls           FLOPs / (peak * fraction); the fraction is lower for few tokens and narrow
//                     weights: 1 / (1 + T0/T + N0/N + K0/K)
//   attention         4 T S n d / tp FLOPs forward, half of them when causal, 2.5 times backward
//   memory-bound      norms, activations, residuals: bytes over the memory's bandwidth
//   launching         a lower bound for all of the above
//   recomputation     the part of a checkpointed layer that its backward repeats
//   communication     volumes over the bandwidth of the group's links (below), minus the overlap
// The pipeline's schedule is simulated with these durations; then gradients are reduced and the
// optimizer runs. Volumes: Megatron-LM's tensor parallelism (2 all-reduces of T h forward, 2
// backward), ring attention, expert all-to-all, ZeRO. A group's bandwidth is its links' if it fits
// into a link domain, otherwise the network bandwidth that its ranks of one node have together.
#pragma once

#include "am/cluster/hardware.h"
#include "am/predict/time/constants.h"
#include "am/predict/time/pipeline_time.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Bytes that one rank sends per step.
struct AxisBytes {
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;
};

struct StepTime {
  double seconds = 0;
  // Parts of `seconds`, averaged over stages, so that they add up to it.
  double products = 0, attention = 0, memory_bound = 0, launching = 0;
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;  // exposed communication
  double bubble = 0;                              // waiting for other stages
  double offload = 0;                             // exposed copies between device and host
  double optimizer = 0;
  double fixed = 0;
  double bubble_fraction = 0;  // fraction of the pipeline's time
  AxisBytes bytes;
};

// `order`: the pipeline's order, to share it between jobs; null: created by the call.
StepTime estimate_step_time(const Workload& workload, const cluster::Gpu& gpu,
                            const CostConstants& constants, const PipelineOrder* order = nullptr);

// Returns a lower bound of estimate_step_time: uses least_seconds() instead of a simulation, and
// takes microseconds instead of milliseconds.
StepTime least_step_time(const Workload& workload, const cluster::Gpu& gpu,
                         const CostConstants& constants);

// Shape of one run (round) of the job's schedule.
pipeline::PipelineShape pipeline_shape(const Workload& workload);

}  // namespace am::predict
