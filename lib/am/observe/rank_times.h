// Times of ranks by kind (computing, reading data, saving, waiting), and a search for slow ranks,
// for which the other ranks wait.
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

// Seconds that a rank spent, summed over some steps, or per step. All times are measured on the
// host. On a GPU, `waiting` also includes the time for which the host waits for its own GPU. This
// time is large on every rank; a rank whose host is slow waits less than the other ranks.
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
  // Median of this kind of time over the rank's group. For a rank without peers, the rank's own
  // earlier time.
  double of_others = 0.0;
};

// Returns the slow ranks, which hold up the others. `times`: seconds per step of each rank.
// `peers`: for each rank, the number of its group; the ranks of a group have equal work, for
// example those of one pipeline stage. A rank is slow if its time of one kind exceeds the median of
// its group by more than a fifth of the rank's step time, waiting included. For an even number of
// ranks the lower median is used, so that one of two ranks can be slow. A rank that is alone in its
// group is compared with its own times in `earlier`, except for saving. If `earlier` is empty, this
// rank is not slow.
std::vector<SlowRank> find_slow_ranks(std::span<const RankTimes> times,
                                      std::span<const int64_t> peers,
                                      std::span<const RankTimes> earlier = {});

// Returns a line for the log, for example "rank 3 (node7) holds up the others: 1.2 s of compute per
// step, usual: 0.4 s".
std::string describe(const SlowRank& slow, const std::string& host);

}  // namespace am::observe
