// The command `stragglers`: the times of all ranks in the last minute, and the ranks that hold up
// the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/live/questions.h"
#include "am/observe/rank_times.h"
#include "am/term/style.h"

namespace am::live {

// The times of this rank in about the last minute. Thread-safe.
class RecentTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Records the rank's times, summed over all steps of this job so far. `steps` is the number of
  // these steps, and `now` is the current time.
  void add(const observe::RankTimes& times, int64_t steps, Clock::time_point now);
  // Returns an object with "steps", the number of steps in the period, and the seconds per step of
  // each kind of time: "compute", "data", "saving" and "waiting". Returns null before the second
  // step.
  Json to_json() const;

 private:
  struct Sample {
    Clock::time_point at;
    observe::RankTimes times;
    int64_t steps = 0;
  };

  mutable std::mutex mutex_;
  std::deque<Sample> samples_;  // samples_[i + 2] is at least a second later than samples_[i]
};

// Returns the result of `stragglers`. Throws Error(kUsage) if no rank has reported times yet.
inspect::Result describe_stragglers(const Answers& answers, const term::Style& style);

}  // namespace am::live
