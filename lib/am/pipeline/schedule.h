// A pipeline schedule as a value: the actions of every rank, in order. am-plan draws it, the memory
// prediction counts micro-batches in it, and the runtime executes it.
//
//   const Schedule schedule = make_schedule({.schedule = "1f1b", .pp = 2, .microbatches = 4});
//   schedule.ranks[0];     // 0F0 0F1 . 0B0 0F2 0B1 0F3 0B2 . 0B3   (. is a bubble)
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

// Returns the schedule. Its lists, bubbles included, equal those of PyTorch 2.11, except that gpipe
// and 1f1b have bubbles exactly where ranks wait. A custom schedule (PipelineShape::own) is
// returned unchanged. Throws Error(kPlan) if violated_constraint() returns a constraint.
Schedule make_schedule(const PipelineShape& shape);

// Returns the list of one rank, without the bubbles that make_schedule() adds with
// insert_bubbles(). `rank`: index along pp. Throws as make_schedule() does.
std::vector<Slot> make_rank_order(const PipelineShape& shape, int64_t rank);

// Returns the number of micro-batches in flight on each of the pipeline's `stages` stages: those
// whose forward has run and whose weight gradient has not been computed. `list`: the list of one
// rank; stages of other ranks count 0. The numbers are for the time at which their sum is largest.
// The activations of all these micro-batches are then live.
std::vector<int64_t> in_flight_by_stage(const std::vector<Slot>& list, int64_t stages);

}  // namespace am::pipeline
