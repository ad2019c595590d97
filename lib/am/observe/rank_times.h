// The time of each rank by kind, and the ranks for which the others wait.
//
//   const auto slow = find_slow_ranks(times, peers);
//   for (const SlowRank& each : slow) log(describe(each, host_of(each.rank)));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::observe {

// Seconds that a rank spent in some steps. All times are those of the host. On a GPU, `waiting`
// also includes the time for which the host waits for its own GPU, which is large on every rank; a
// rank whose host is slow waits less than the others.
struct RankTimes {
  double compute = 0.0;  // running steps, without data and waiting
  double data = 0.0;     // reading batches
  double saving = 0.0;   // saving checkpoints, without waiting
  double waiting = 0.0;  // waiting for other ranks, in collectives and in messages

  double own() const { return compute + data + saving; }
  RankTimes operator-(const RankTimes& other) const {
    return {compute - other.compute, data - other.data, saving - other.saving,
            waiting - other.waiting};
  }
  RankTimes operator/(double steps) const {
    return {compute / steps, data / steps, saving / steps, waiting / steps};
  }
};

struct SlowRank {
  int64_t rank = 0;
  std::string_view kind;  // the kind of time with the largest excess: compute, data or saving
  double seconds = 0.0;   // time of this kind per step
  // Median of the group's times of this kind; for a rank without peers, its own earlier time.
  double of_others = 0.0;
};

// Returns the ranks that hold up the others. `times`: seconds per step of each rank. `peers`: for
// each rank the number of a group of ranks with equal work, for example the pipeline stage. A rank
// is slow if its time of one kind exceeds the median of its group by more than a fifth of a step.
// The median is the lower one, so that one of two ranks can be slow. A rank without peers is
// compared with its own `earlier` times, if there are any, except for saving.
std::vector<SlowRank> find_slow_ranks(std::span<const RankTimes> times,
                                      std::span<const int64_t> peers,
                                      std::span<const RankTimes> earlier = {});

// Returns a text for the log, for example "rank 3 (node7) holds up the others: 1.2 s of compute per
// step, usual: 0.4 s".
std::string describe(const SlowRank& slow, const std::string& host);

}  // namespace am::observe
