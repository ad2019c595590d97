// Duration of one run of a pipeline schedule, by simulating its passes and messages. The simulation
// takes into account that stages have unequal durations, that the last stage has the head, and in
// which order the ranks run their passes.
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

// Returns a lower bound of the seconds of every schedule of this shape. The bound is the maximum,
// over ranks, of the time of the rank's own passes plus the time of the passes on other ranks that
// must precede its first pass or follow its last one.
double least_seconds(const pipeline::PipelineShape& shape,
                     const std::vector<pipeline::StageDurations>& stages);

// Simulates a schedule. Short schedules are simulated completely. A long schedule is periodic
// between its start and its end. Therefore only two short runs of it are simulated, whose numbers
// of micro-batches differ by at most pp. The time of the remaining micro-batches is extrapolated
// from the difference of the two times. Each extrapolated micro-batch takes at least as long as the
// busiest rank computes for it. Without this bound the result could be below least_seconds(),
// because the longer run may fill bubbles of the shorter one.
class PipelineOrder {
 public:
  // If the schedule does not accept shape.microbatches, run() computes the time from numbers of
  // micro-batches that the schedule accepts. A custom schedule (a CSV file) is simulated
  // completely.
  explicit PipelineOrder(const pipeline::PipelineShape& shape);

  // Returns the schedule's duration. `stages`: seconds of the passes through each of the
  // pp * virtual_stages stages.
  PipelineTime run(const std::vector<pipeline::StageDurations>& stages) const;

 private:
  double microbatches_;
  std::vector<int64_t> owners_;               // index along pp that runs a stage, [stage]
  pipeline::Schedule short_;                  // the complete schedule, or the shorter simulated run
  std::optional<pipeline::Schedule> longer_;  // longer run; unset if only one run is simulated
};

}  // namespace am::predict
