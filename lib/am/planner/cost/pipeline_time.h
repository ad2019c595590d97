// How long a pipeline runs, from the schedule itself: its events are simulated, so unequal stages,
// the head on the last one and every order of passes count as they are.
//
//   const PipelineOrder order({.schedule = "1f1b", .pp = 4, .microbatches = 512});
//   order.run(stages).seconds;
#pragma once

#include <optional>
#include <vector>

#include "am/pipeline/schedule.h"
#include "am/pipeline/timeline.h"

namespace am::planner {

struct PipelineTime {
  double seconds = 0.0;
  double bubble_fraction = 0.0;  // of all ranks' time
};

// A time that no schedule of this shape undercuts: of each rank, its passes, what has to come to it
// first, and what has to go on from it.
double least_seconds(const pipeline::PipelineShape& shape,
                     const std::vector<pipeline::StageDurations>& stages);

// A schedule is periodic between its ends. So a short run is simulated, one that is pp
// micro-batches longer, and the rest is extrapolated; short schedules are simulated as they are. A
// micro-batch more takes no less than the busiest rank's passes of it: the two runs can differ by
// less where the longer one fills bubbles, and least_seconds() would be undercut.
class PipelineOrder {
 public:
  // Micro-batches that the schedule does not accept are taken between those that it does; an own
  // schedule is simulated as it is.
  explicit PipelineOrder(const pipeline::PipelineShape& shape);

  // Seconds by stage, pp * virtual_stages of them.
  PipelineTime run(const std::vector<pipeline::StageDurations>& stages) const;

 private:
  double microbatches_;
  std::vector<int64_t> owners_;  // of the stages
  pipeline::Schedule short_;
  std::optional<pipeline::Schedule> longer_;
};

}  // namespace am::planner
