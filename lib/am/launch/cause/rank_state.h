// State that a rank publishes in the job's store, for its peers and for the launcher.
#pragma once

#include <chrono>
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
  uint64_t beat = 0;  // counts the rank's publications, so it grows while the process runs
  double time = 0.0;  // Unix time of this state, in seconds
  std::map<std::string, uint64_t> issued;  // number of collectives issued, by communicator
  std::string waiting_op;  // collective that the rank waits in, such as "all_reduce"; empty: none
  std::string waiting_group, waiting_communicator;
  uint64_t waiting_sequence = 0;
  // Ranks of the collective's group; empty if the ranks are published under a separate key.
  std::vector<int64_t> waiting_ranks;
  double waiting_seconds = 0.0;
  std::string failed;  // message of the rank's own error; empty: none

  // Returns the rank's step and the collective that it waits in, for example "at step 7, in
  // all_reduce world #5 for 3.0 s".
  std::string whereabouts() const;

  Json to_json() const;
  static RankState from_json(const Json& json);  // throws Error(kFormat)
};

// Returns the time between two publications of a rank's state: 1/20 of `timeout`, the timeout of a
// collective, but at least 0.1 s, and at most 2 s or, if this is longer, 1 ms per rank.
std::chrono::milliseconds state_interval(std::chrono::milliseconds timeout, int64_t world_size);

// Returns the prefix of all keys that one attempt of a job uses in the job's store.
std::string attempt_prefix(int64_t restart_count);
// Return the key of a rank's state: state_key() relative to the prefix of the rank's attempt,
// state_key_in_store() with that prefix.
std::string state_key(int64_t rank);
std::string state_key_in_store(int64_t restart_count, int64_t rank);

}  // namespace am::launch
