// Which published runs speak for a prediction: of whose step, on which GPU, of a dense model or of
// one with experts. Figures of how far predictions are off hold for those; of others they say
// nothing.
//
//   const Evidence evidence = timed_evidence(built_in_runs(), workload, gpu);
//   if (evidence.of_this == 0) ...   // nobody has measured such a workload
#pragma once

#include <string>
#include <string_view>

#include "am/planner/cost/hardware.h"
#include "am/planner/cost/measured_runs.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

// Numbers of runs; jobs of functional tests do not count.
struct Evidence {
  int of_this = 0;            // this implementation, on this GPU's product, of this kind of model
  int on_gpu = 0;             // this product and this kind, whoever ran the step
  int of_implementation = 0;  // this implementation, whatever it ran on
};

// Of the runs whose step was timed.
Evidence timed_evidence(const MeasuredRuns& runs, const Workload& workload, const Gpu& gpu);
// Of those whose memory was measured. `gpu` null: on any.
Evidence memory_evidence(const MeasuredRuns& runs, const Workload& workload, const Gpu* gpu);

// "a dense model", "a model with experts"
std::string_view kind_of_model(const Workload& workload);

}  // namespace am::planner
