// State that a rank publishes in the job's store. Other ranks and the launcher read it.
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
  uint64_t beat = 0;  // number of this publication; grows as long as the rank's process runs
  double time = 0.0;  // Unix time of this state, in seconds
  std::map<std::string, uint64_t> issued;  // number of collectives issued, by communicator
  // Operation of the collective in which the rank waits, for example "all_reduce"; empty: the rank
  // waits in no collective, and the other members with "waiting" in their names have no meaning.
  std::string waiting_op;
  // The name of the collective's group that users see, for example "tp", and the communicator's
  // unique name, for example "mesh/1/tp/4".
  std::string waiting_group, waiting_communicator;
  uint64_t waiting_sequence = 0;  // number of the collective in its communicator, from 1
  // Ranks of the communicator; empty if the ranks are published under a separate key.
  std::vector<int64_t> waiting_ranks;
  double waiting_seconds = 0.0;
  std::string failed;  // message of the rank's own error; empty: none

  // Returns the rank's step and the collective that it waits in, for example "at step 7, in
  // all_reduce world #5 for 3.0 s".
  std::string whereabouts() const;

  Json to_json() const;
  static RankState from_json(const Json& json);  // throws Error(kFormat)
};

// Returns the time between two publications of a rank's state. It is 1/20 of `timeout`, the timeout
// of a collective, but at least 0.1 s and at most 2 s, or 1 ms per rank if the job has more than
// 2000 ranks.
std::chrono::milliseconds state_interval(std::chrono::milliseconds timeout, int64_t world_size);

// Returns the prefix of all keys that one attempt of a job uses in the job's store.
std::string attempt_prefix(int64_t restart_count);
// Return the key of a rank's state. state_key() returns the key without the prefix of the rank's
// attempt, state_key_in_store() with it.
std::string state_key(int64_t rank);
std::string state_key_in_store(int64_t restart_count, int64_t rank);

}  // namespace am::launch
