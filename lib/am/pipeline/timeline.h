// Simulates a schedule: computes the start and the end of every action from the durations of
// actions and of hops (messages between ranks).
//
// Each rank runs its list in order and waits for missing inputs. Empty slots of the list take no
// time. A rank computes one action, or one overlapped pair, at a time. Sends overlap with
// computation unless `hops_occupy` is set.
//
//   const Timeline timeline = simulate(schedule, Durations::even(stages, ranks));
//   timeline.makespan; timeline.bubble_fraction; timeline.ranks[0][3].start;
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/schedule.h"

namespace am::pipeline {

// Durations of a stage's passes, in any unit of time; not negative. A whole backward (B) takes the
// sum of backward_input and backward_weight.
struct StageDurations {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
};

// Returns the duration of an action of the stage; 0 for actions that do not compute.
double pass_length(Kind kind, const StageDurations& stage);

struct Durations {
  std::vector<StageDurations> stages;  // durations of each stage
  double hop_latency = 0.0;   // time of each message between ranks, independent of its size
  double hop_transfer = 0.0;  // time to transfer the bytes of one message between ranks
  bool hops_occupy = false;   // whether the sending rank cannot compute during hop_transfer
  // Fraction of the shorter action of an overlapped pair that is hidden. 0: the two actions run one
  // after the other; 1: the shorter action takes no additional time.
  double pair_overlap = 0.0;

  // Returns durations of equal stages. The forwards of all stages of one rank together take one
  // unit of time, so the forward of one stage takes ranks / stages. Each of the two parts of a
  // backward takes as long as a forward.
  static Durations even(int64_t stages, int64_t ranks);
};

struct Event {
  Action action;
  bool paired = false;  // whether the action belongs to an overlapped pair
  double start = 0.0;
  double end = 0.0;
};

struct Timeline {
  std::vector<std::vector<Event>> ranks;  // for each rank: its actions, in the order of its list
  double makespan = 0.0;
  std::vector<double> idle;      // for each rank: makespan minus computing time
  double bubble_fraction = 0.0;  // idle fraction of the time of all ranks
  // For each rank: largest number of its micro-batches in flight at one time. A micro-batch counts
  // once for each of the rank's stages.
  std::vector<int64_t> peak_in_flight;
};

// Simulates a schedule, which must contain compute actions only. Throws Error(kPlan) if ranks
// deadlock. The running time is proportional to the number of actions.
Timeline simulate(const Schedule& schedule, const Durations& durations);
// Returns only the makespan, in the unit of `durations`. Searches call this function for thousands
// of schedules.
double simulated_seconds(const Schedule& schedule, const Durations& durations);

// A rank that waits forever, and the index of the slot that the rank cannot run. find_deadlock()
// returns all ranks that wait forever, or none if every list runs to its end.
struct Stuck {
  int64_t rank = 0;
  size_t slot = 0;
};
std::vector<Stuck> find_deadlock(const Schedule& schedule);

}  // namespace am::pipeline
