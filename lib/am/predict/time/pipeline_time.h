// Duration of a pipeline, by simulating the events of its schedule. Unequal stages, the head on the
// last stage and every order of passes are therefore taken into account.
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
  double bubble_fraction = 0.0;  // fraction of all ranks' time
};

// Lower bound for every schedule of this shape: the maximum over ranks of the rank's passes, plus
// the passes that must precede its first and follow its last.
double least_seconds(const pipeline::PipelineShape& shape,
                     const std::vector<pipeline::StageDurations>& stages);

// Simulates a schedule. A schedule is periodic between its start and end, so two short runs are
// simulated, which differ by pp micro-batches, and the rest is extrapolated; short schedules are
// simulated completely. Each extrapolated micro-batch takes at least as long as the busiest rank
// computes for it. Without this bound the result could be below least_seconds(), because the longer
// run may fill bubbles of the shorter one.
class PipelineOrder {
 public:
  // If the schedule does not accept the number of micro-batches, interpolates between numbers that
  // it accepts. A custom (CSV) schedule is simulated unchanged.
  explicit PipelineOrder(const pipeline::PipelineShape& shape);

  // Durations in seconds per stage; pp * virtual_stages stages.
  PipelineTime run(const std::vector<pipeline::StageDurations>& stages) const;

 private:
  double microbatches_;
  std::vector<int64_t> owners_;  // owners of the stages
  pipeline::Schedule short_;
  std::optional<pipeline::Schedule> longer_;
};

}  // namespace am::predict
