// Counts the published runs that support a prediction, by implementation, GPU, and kind of model
// (dense or with experts). The prediction errors of a calibration (time/constants.h) are valid only
// for combinations with runs.
//
//   const Evidence evidence = timed_evidence(built_in_runs(), workload, gpu);
//   if (evidence.of_this == 0) ...   // no run with this implementation, GPU and kind of model
#pragma once

#include <string>
#include <string_view>

#include "am/cluster/hardware.h"
#include "am/predict/time/measured_runs.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Numbers of runs that resemble a workload. Functional tests (MeasuredRun::test_job) do not count.
struct Evidence {
  int of_this = 0;            // runs of this implementation, GPU product and kind of model
  int on_gpu = 0;             // runs of this GPU product and kind of model, any implementation
  int of_implementation = 0;  // runs of this implementation, any GPU and any kind of model
  int of_architecture = 0;    // runs on GPUs of this architecture
};

// Returns the product name of a GPU, for example "h100" for "h100-sxm" and "h100-sxm-96g-500w":
// kernels reach about the same fraction of the peak on GPUs of one product. "h100-pcie" is a
// product of its own, because of its power limit.
std::string_view product_of(const cluster::Gpu& gpu);

// Counts the runs with a measured step time that resemble `workload` on `gpu`.
Evidence timed_evidence(const MeasuredRuns& runs, const Workload& workload,
                        const cluster::Gpu& gpu);
// Counts the runs with measured memory that resemble `workload` on `gpu`, or on any GPU if `gpu` is
// null.
Evidence memory_evidence(const MeasuredRuns& runs, const Workload& workload,
                         const cluster::Gpu* gpu);

// Returns "a dense model" or "a model with experts".
std::string_view kind_of_model(const Workload& workload);

}  // namespace am::predict
