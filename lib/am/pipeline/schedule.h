// A pipeline schedule as a value: the actions of every rank, in order. am-plan draws it, the memory
// prediction counts micro-batches in it, and the runtime executes it.
//
//   const Schedule schedule = make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 4});
//   schedule.ranks[0];     // 0F0 0F1 . 0B0 0F2 0B1 0F3 0B2 . 0B3
//   const Timeline timeline = simulate(schedule, Durations::even(2, 2));   // timeline.h
//   const auto lists = with_communication(schedule);                       // communication.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

struct Schedule {
  std::string name;  // name of the schedule, or path of its file
  int64_t microbatches = 0;
  std::vector<int64_t> owners;  // for each stage: its rank, as an index along pp
  // The actions of each rank. Only their order matters; bubbles align the ranks if every action
  // takes one slot.
  std::vector<std::vector<Slot>> ranks;

  int64_t pp() const { return static_cast<int64_t>(ranks.size()); }
  int64_t stages() const { return static_cast<int64_t>(owners.size()); }
};

// Returns the lists that PyTorch 2.11 makes, including their bubbles, except that in gpipe and 1f1b
// there are bubbles exactly where ranks wait. A custom (CSV) schedule
// is returned unchanged. Throws Error(kPlan) if violated_constraint() returns a constraint.
Schedule make_schedule(const PipelineShape& shape);

// Returns the list of one rank, without the bubbles that depend on other ranks. Throws as
// make_schedule() does.
std::vector<Slot> make_rank_order(const PipelineShape& shape, int64_t rank);

// Returns, for each of the pipeline's `stages` stages, the number of this rank's micro-batches in
// flight: those whose forward has run and whose weight gradient has not been computed. The numbers
// are for the time at which their sum over the rank's stages is largest; the activations of all
// these micro-batches are then live.
std::vector<int64_t> in_flight_by_stage(const std::vector<Slot>& list, int64_t stages);

}  // namespace am::pipeline
