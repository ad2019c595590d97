// The collectives that a rank issued most recently, with sizes and times, for diagnosis of a rank
// that hangs.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "am/base/json.h"
#include "am/runtime/progress.h"

namespace am::runtime {

class RecentCollectives {
 public:
  static constexpr size_t kKept = 32;
  using Clock = Progress::Clock;

  void add(const Collective& collective, int64_t bytes);
  // Returns at most `most` entries, newest first: [{"op", "group", "sequence", "bytes",
  // "seconds_ago", "waiting"}]. "waiting" is true for the collective `waiting`, for which the rank
  // waits.
  Json to_json(const std::optional<Progress::Waiting>& waiting, size_t most = kKept) const;

 private:
  struct Entry {
    Collective collective;
    int64_t bytes = 0;
    Clock::time_point issued;
  };

  mutable std::mutex mutex_;
  std::array<Entry, kKept> entries_;
  size_t count_ = 0;  // number of collectives ever added
};

}  // namespace am::runtime
