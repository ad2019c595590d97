// What a rank publishes about itself in the job's store, for its peers and for the launcher.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"

namespace am::launch {

struct RankState {
  int64_t rank = 0;
  std::optional<int64_t> step;
  uint64_t beat = 0;                       // grows while the process runs
  double time = 0.0;                       // when this was so, in seconds since the epoch
  std::map<std::string, uint64_t> issued;  // by communicator: collectives issued
  std::string waiting_op;                  // empty: in no collective
  std::string waiting_group, waiting_communicator;
  uint64_t waiting_sequence = 0;
  std::vector<int64_t> waiting_ranks;
  double waiting_seconds = 0.0;
  std::string failed;  // the rank's own error, when it has one

  // "at step 7, in all_reduce world #5 for 3.0 s"
  std::string whereabouts() const;

  Json to_json() const;
  static RankState from_json(const Json& json);  // throws Error(kFormat)
};

// Before the keys of one attempt of a job, in the store that all its ranks reach.
std::string attempt_prefix(int64_t restart_count);
// Where a rank publishes its state: within what it joined, and in the whole store.
std::string state_key(int64_t rank);
std::string state_key_in_store(int64_t restart_count, int64_t rank);

}  // namespace am::launch
