// Simulates a schedule: start and end of every action, given durations of actions and hops.
//
// Each rank runs its list in order and waits for missing inputs; bubbles in the list take no time.
// A rank computes one action at a time; sends overlap with computation unless `hops_occupy` is set.
//
//   const Timeline timeline = simulate(schedule, Durations::even(stages, ranks));
//   timeline.makespan; timeline.bubble_fraction; timeline.ranks[0][3].start;
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// Durations of a stage's passes in any unit of time; not negative.
struct StageDurations {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;  // a whole backward takes both
};

// Returns the duration of an action of the stage; 0 for actions that compute nothing.
double pass_length(Kind kind, const StageDurations& stage);

struct Durations {
  std::vector<StageDurations> stages;  // per stage
  double hop_latency = 0.0;            // per message between ranks, independent of its size
  double hop_transfer = 0.0;           // per message, for its bytes
  bool hops_occupy = false;            // the sending rank computes nothing during hop_transfer
  // Fraction of the shorter action of an overlapped pair that takes no time: 0 runs the two in
  // sequence, 1 hides the shorter one.
  double pair_overlap = 0.0;

  // Returns durations of equal stages: the forward of a rank's layers takes one unit of time, the
  // forward of one stage ranks / stages.
  static Durations even(int64_t stages, int64_t ranks);
};

struct Event {
  Action action;
  bool paired = false;  // one action of an overlapped pair
  double start = 0.0;
  double end = 0.0;
};

struct Timeline {
  std::vector<std::vector<Event>> ranks;  // per rank, in the order of its list
  double makespan = 0.0;
  std::vector<double> idle;             // per rank: makespan minus computing time
  double bubble_fraction = 0.0;         // idle fraction of all ranks' time
  std::vector<int64_t> peak_in_flight;  // per rank, in micro-batches of one stage
};

// `schedule` must contain compute actions only. Throws Error(kPlan) if ranks deadlock. Takes
// O(actions).
Timeline simulate(const Schedule& schedule, const Durations& durations);
// Returns only the makespan, for searches, which simulate thousands of schedules.
double simulated_seconds(const Schedule& schedule, const Durations& durations);

// A rank that waits forever, and the index of the slot that it cannot run. find_deadlock returns
// all such ranks; none if all lists complete.
struct Stuck {
  int64_t rank = 0;
  size_t slot = 0;
};
std::vector<Stuck> find_deadlock(const Schedule& schedule);

}  // namespace am::pipeline
