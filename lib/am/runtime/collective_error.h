// A collective that failed: which one, and which ranks it waited for.
//
//   catch (const CollectiveError& error) {
//     error.collective().name();     // "all_reduce dp_shard_cp #1042"
//     error.missing();               // {1}: as far as anyone can tell, the culprits
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
  // `timed_out`: the peers are connected, but did not come; otherwise a connection broke.
  CollectiveError(Collective collective, bool timed_out, const std::string& reason, Stall stall);

  const Collective& collective() const { return collective_; }
  bool timed_out() const { return timed_out_; }
  const std::vector<int64_t>& missing() const { return missing_; }

 private:
  Collective collective_;
  bool timed_out_;
  std::vector<int64_t> missing_;
};

// Ranks that did not come to where a group is made.
class MissingRanks : public Error {
 public:
  // `where`: the group's name; `size`: how many ranks meet there.
  MissingRanks(const std::string& where, std::vector<int64_t> missing, int64_t size,
               std::chrono::milliseconds timeout);

  const std::vector<int64_t>& missing() const { return missing_; }

 private:
  std::vector<int64_t> missing_;
};

}  // namespace am::runtime
