// Time of one optimizer step, from FLOPs, bytes and constants fitted to measured runs.
//
//   const StepTime time = estimate_step_time(workload, gpu, constants);
//   time.seconds; time.bubble_fraction; time.bytes.tp;
//
// Note [Time model]: time of one layer and one micro-batch on one rank. Legend: T tokens, S
// positions of a sequence, h hidden size, n heads of width d, N and K output and input width of a
// matmul; T0, N0, K0: constants.h.
//   matmuls           FLOPs / (peak * fraction); the fraction is lower for few tokens and narrow
//                     weights: 1 / (1 + T0/T + N0/N + K0/K)
//   attention         4 T S n d / tp FLOPs forward, half of them when causal, 2.5 times backward
//   memory-bound      norms, activations, residuals: bytes over the memory's bandwidth
//   launching         seconds by which kernel launches make the three times above longer
//   recomputation     the part of a checkpointed layer that its backward repeats
//   communication     volumes over the bandwidth of the group's links (below), minus the overlap
// The pipeline's schedule is simulated with these durations. The times of the gradient reduction
// and of the optimizer are added. The volumes of communication are those of Megatron-LM's tensor
// parallelism (2 all-reduces of T h elements in forward, 2 in backward), of the method of attention
// over cp (ring attention outside automesh), of expert all-to-all, and of ZeRO. A link domain is a
// set of GPUs that NVLink or similar fast links connect with each other. A group of ranks inside
// one link domain has the bandwidth of a GPU's links. A larger group has the sum of the network
// bandwidths of its ranks in one link domain, but at most the bandwidth of the links.
#pragma once

#include "am/cluster/hardware.h"
#include "am/predict/time/constants.h"
#include "am/predict/time/pipeline_time.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Bytes that one rank sends per step, by the axis over which it sends them.
struct AxisBytes {
  double tp = 0, cp = 0, ep = 0, pp = 0, dp = 0;
};

struct StepTime {
  double seconds = 0;
  // Parts of `seconds`, from `products` to `fixed`, which add up to `seconds`. The times of passes
  // and of messages between stages are averaged over the pp ranks.
  double products = 0, attention = 0, memory_bound = 0, launching = 0;
  double tp = 0, cp = 0, ep = 0, pp = 0,
         dp = 0;       // communication that does not overlap with computation
  double bubble = 0;   // time for which ranks wait for other pipeline stages
  double offload = 0;  // copies between device and host that do not overlap with computation
  double optimizer = 0;
  double fixed = 0;            // constant time per step, and the time that many nodes add
  double bubble_fraction = 0;  // `bubble` as a fraction of the pipeline's time
  AxisBytes bytes;
};

// Returns the predicted time of a step. `order`: a PipelineOrder of pipeline_shape(workload), which
// callers may keep for several workloads of this shape; null: the function creates it.
StepTime estimate_step_time(const Workload& workload, const cluster::Gpu& gpu,
                            const CostConstants& constants, const PipelineOrder* order = nullptr);

// Returns a lower bound of the result of estimate_step_time. A call needs microseconds instead of
// milliseconds, because least_seconds() replaces the simulation.
StepTime least_step_time(const Workload& workload, const cluster::Gpu& gpu,
                         const CostConstants& constants);

// Returns the shape of one round of the pipeline. A round is one run of the schedule. A step
// consists of several rounds if it has more micro-batches than one round processes.
pipeline::PipelineShape pipeline_shape(const Workload& workload);

}  // namespace am::predict
