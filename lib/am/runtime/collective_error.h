// Error of a failed collective: names the collective and the ranks for which it waited.
//
//   try {
//     group.all_reduce(loss_sum);
//   } catch (const CollectiveError& error) {
//     error.collective().name();     // "all_reduce dp_shard_cp #1042"
//     error.missing();               // {1}: the probable culprits
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/runtime/progress.h"
#include "am/runtime/stall.h"

namespace am::runtime {

class CollectiveError : public Error {
 public:
  // `timed_out`: true if the collective reached its timeout; false if it failed earlier, for
  // example because a connection broke.
  CollectiveError(Collective collective, bool timed_out, const std::string& reason, Stall stall);

  const Collective& collective() const { return collective_; }
  bool timed_out() const { return timed_out_; }
  const std::vector<int64_t>& missing() const { return missing_; }

 private:
  Collective collective_;
  bool timed_out_;
  std::vector<int64_t> missing_;
};

// Error of a group's creation: names the ranks that did not arrive in time.
class MissingRanks : public Error {
 public:
  // `where`: the name of the group that was created; `size`: its number of ranks.
  MissingRanks(const std::string& where, std::vector<int64_t> missing, int64_t size,
               std::chrono::milliseconds timeout);

  const std::vector<int64_t>& missing() const { return missing_; }

 private:
  std::vector<int64_t> missing_;
};

}  // namespace am::runtime
