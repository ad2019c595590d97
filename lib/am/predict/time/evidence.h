// Published runs that support a prediction, counted by implementation, GPU, and kind of model
// (dense or with experts). The prediction errors of a calibration are valid only for combinations
// with runs.
//
//   const Evidence evidence = timed_evidence(built_in_runs(), workload, gpu);
//   if (evidence.of_this == 0) ...   // nobody has measured such a workload
#pragma once

#include <string>
#include <string_view>

#include "am/cluster/hardware.h"
#include "am/predict/time/measured_runs.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Numbers of runs, without jobs of functional tests.
struct Evidence {
  int of_this = 0;            // same implementation, GPU product and kind of model
  int on_gpu = 0;             // same GPU product and kind of model, any implementation
  int of_implementation = 0;  // same implementation, any GPU
};

// Counts runs with a measured step time.
Evidence timed_evidence(const MeasuredRuns& runs, const Workload& workload,
                        const cluster::Gpu& gpu);
// Counts runs with measured memory. `gpu` null: on any GPU.
Evidence memory_evidence(const MeasuredRuns& runs, const Workload& workload,
                         const cluster::Gpu* gpu);

// Returns "a dense model" or "a model with experts".
std::string_view kind_of_model(const Workload& workload);

}  // namespace am::predict
