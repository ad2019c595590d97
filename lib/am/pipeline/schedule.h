// A pipeline schedule as a value: what every rank computes, in order. am-plan draws it, the memory
// prediction counts in it, and a runtime executes it.
//
//   const Schedule schedule = make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 4});
//   schedule.ranks[0];     // 0F0 0F1 . . 0B0 0F2 0B1 0F3 ...
//   const Timeline timeline = simulate(schedule, {});              // timeline.h
//   const auto lists = with_communication(schedule);               // communication.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

struct Schedule {
  std::string name;  // of the schedule, or of the file that it came from
  int64_t microbatches = 0;
  std::vector<int64_t> owners;  // by stage: the rank, an index along pp
  // By rank. The order is what counts; bubbles align the ranks where every pass takes one slot.
  std::vector<std::vector<Slot>> ranks;

  int64_t pp() const { return static_cast<int64_t>(ranks.size()); }
  int64_t stages() const { return static_cast<int64_t>(owners.size()); }
};

// The same lists as PyTorch 2.11 makes, bubbles included; where it keeps none (gpipe, 1f1b) they
// stand where ranks wait. An own schedule is given as it is. Throws Error(kPlan) when
// violated_demand() has something to say.
Schedule make_schedule(const PipelineShape& shape);

// One rank's list alone, without those bubbles that need a look at the other ranks. Throws alike.
std::vector<Slot> make_rank_order(const PipelineShape& shape, int64_t rank);

// By stage of this rank's list: how many of its micro-batches are in flight (their forward has run,
// the gradient of their weights is not made) at the moment when most are, all stages of the rank
// together. Those activations are alive at once. `stages` is the pipeline's number of them.
std::vector<int64_t> in_flight_by_stage(const std::vector<Slot>& list, int64_t stages);

}  // namespace am::pipeline
