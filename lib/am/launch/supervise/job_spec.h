// The launcher's input: one node's share of a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/launch/cause/job_result.h"
#include "am/launch/nodes/key_value_store.h"

namespace am::launch {

struct JobSpec {
  std::vector<std::string> argv;  // program (looked up in PATH when it has no slash) and arguments
  int64_t nproc = 1;              // ranks on this machine
  int64_t node_rank = 0;
  int64_t num_nodes = 1;  // machines, all with the same nproc
  std::string master_addr = "127.0.0.1";
  // Port of the rendezvous. 0: node 0 chooses a free port, which requires num_nodes == 1 or a
  // store.
  int master_port = 0;
  // A launcher serves the store at master_addr:master_port (TORCHELASTIC_USE_AGENT_STORE=True);
  // otherwise rank 0 does.
  bool agent_store = false;
  // Shared by the launchers of all nodes, which then agree on the first cause. Null: each launcher
  // judges its own ranks. Calls of the store must not block, so it must be a BackgroundStore. Not
  // owned.
  KeyValueStore* store = nullptr;
  std::string run_id = "none";
  int64_t restart_count = 0;  // attempts before this one
  int64_t max_restarts = 0;
  // Set for each rank, overriding the launcher's own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // Holds rank-R.log and rank-R.error.json; created if missing. Empty: a temporary folder, removed
  // at the end.
  std::filesystem::path log_folder;
  double grace_seconds = 5.0;   // after a failure: from SIGTERM to SIGKILL of the other ranks
  double settle_seconds = 2.0;  // how long the launcher waits for the true cause after a witness's
                                // error, before it stops the ranks
  double stop_seconds = 0.0;    // from the user's signal to SIGKILL; 0: no limit while ranks save
  // Time without a heartbeat after which another node's launcher counts as gone; after a failure
  // half of this time.
  double silence_seconds = 10.0;
  // Returns the last state that a rank published, if known. Called for a rank that died without a
  // report.
  std::function<std::optional<LastWord>(int64_t rank, int64_t restart_count)> last_word;
  int tail_lines = 20;  // lines of a failed rank's log that the result keeps
};

}  // namespace am::launch
