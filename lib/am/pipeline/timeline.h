// When every pass of a schedule runs, given how long passes and hops take.
//
// Each rank runs its list in order and waits where an input has not arrived; bubbles in the list
// take no time of their own. A rank is one computing unit: sends go on beside it unless
// `hops_occupy` says otherwise.
//
//   const Timeline timeline = simulate(schedule, Durations::even(stages, ranks));
//   timeline.makespan; timeline.bubble_fraction; timeline.ranks[0][3].start
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// In any unit of time; none negative.
struct StageDurations {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;  // a whole backward takes both
};

// Of a pass of the stage; 0 of what is none.
double pass_length(Kind kind, const StageDurations& stage);

struct Durations {
  std::vector<StageDurations> stages;  // by stage
  double hop_latency = 0.0;            // of a message between ranks, whatever its size
  double hop_transfer = 0.0;           // and for its bytes
  bool hops_occupy = false;            // the sending rank computes nothing during hop_transfer
  // Of an overlapped pair, the share of its shorter pass that costs no time: 0 runs both one after
  // the other, 1 hides the shorter one.
  double pair_overlap = 0.0;

  // All stages alike; the forward of one rank's share of the layers takes one unit, so that of a
  // stage ranks / stages.
  static Durations even(int64_t stages, int64_t ranks);
};

struct Event {
  Action action;
  bool paired = false;  // one half of an overlapped pair
  double start = 0.0;
  double end = 0.0;
};

struct Timeline {
  std::vector<std::vector<Event>> ranks;  // by rank, in the order of its list
  double makespan = 0.0;
  std::vector<double> idle;             // by rank: makespan less computing
  double bubble_fraction = 0.0;         // of all ranks' time, the share that is idle
  std::vector<int64_t> peak_in_flight;  // by rank, in micro-batches of one stage
};

// `schedule` has compute actions only. Throws Error(kPlan) when ranks wait for each other for ever.
// O(actions).
Timeline simulate(const Schedule& schedule, const Durations& durations);
// Its makespan alone: a search asks for thousands.
double simulated_seconds(const Schedule& schedule, const Durations& durations);

// Where ranks stop for ever, as their next slot's index; empty when all lists run to their end.
struct Stuck {
  int64_t rank = 0;
  size_t slot = 0;
};
std::vector<Stuck> find_deadlock(const Schedule& schedule);

}  // namespace am::pipeline
