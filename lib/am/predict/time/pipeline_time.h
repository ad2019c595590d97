// Duration of one run of a pipeline schedule, by simulating its passes. Callers include the time of
// messages between stages in the durations of the passes. The simulation accounts for stages with
// unequal durations, for example the last stage, which has the head, and for the order in which the
// ranks run their passes.
//
//   const PipelineOrder order({.schedule = "1f1b", .pp = 4, .microbatches = 512});
//   order.run(stages).seconds;
#pragma once

#include <optional>
#include <vector>

#include "am/pipeline/schedule.h"
#include "am/pipeline/timeline.h"

namespace am::predict {

struct PipelineTime {
  double seconds = 0.0;
  double bubble_fraction = 0.0;  // fraction of the ranks' time in which they are idle
};

// Returns a lower bound of the seconds of one run of the schedule. The bound is the maximum over
// the ranks of this sum: the time of the rank's own passes, plus the time of the passes on other
// ranks that must precede the rank's first pass or follow its last pass. `stages`: as in
// PipelineOrder::run().
double least_seconds(const pipeline::PipelineShape& shape,
                     const std::vector<pipeline::StageDurations>& stages);

// Simulates a schedule. Short schedules are simulated completely. A long schedule is periodic
// between its start and its end, so only two short runs are simulated, whose numbers of
// micro-batches differ by at most pp. The difference of the two times determines the time of each
// remaining micro-batch, which is at least the time that the busiest rank computes for one
// micro-batch. Without this minimum the result could be below least_seconds(), because the longer
// run may fill bubbles of the shorter run.
class PipelineOrder {
 public:
  // If the schedule does not accept shape.microbatches, run() extrapolates from runs whose numbers
  // of micro-batches the schedule accepts. A custom schedule (a CSV file) is simulated completely.
  explicit PipelineOrder(const pipeline::PipelineShape& shape);

  // Returns the schedule's duration. `stages`: seconds of the passes through each of the
  // pp * virtual_stages stages.
  PipelineTime run(const std::vector<pipeline::StageDurations>& stages) const;

 private:
  double microbatches_;
  std::vector<int64_t> owners_;               // index along pp of each stage's rank, [stage]
  pipeline::Schedule short_;                  // the complete schedule, or the shorter simulated run
  std::optional<pipeline::Schedule> longer_;  // longer run; unset if only one run is simulated
};

}  // namespace am::predict
