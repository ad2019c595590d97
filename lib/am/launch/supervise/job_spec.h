// What the launcher is asked to run: one node's share of a job.
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
  // Where the ranks meet. 0: a free port, which node 0 chooses; needs num_nodes == 1 or a store.
  int master_port = 0;
  // A launcher serves the store at master_addr:master_port (TORCHELASTIC_USE_AGENT_STORE=True);
  // else rank 0 does.
  bool agent_store = false;
  // Shared by the launchers of all nodes, which then agree on the first cause; nothing: each judges
  // its own ranks. Its calls must not wait: a BackgroundStore. Not owned.
  KeyValueStore* store = nullptr;
  std::string run_id = "none";
  int64_t restart_count = 0;  // attempts before this one
  int64_t max_restarts = 0;
  // Set for each rank, over the launcher's own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  // Holds rank-R.log and rank-R.error.json; made when missing. Empty: a temporary folder, removed
  // at the end.
  std::filesystem::path log_folder;
  double grace_seconds = 5.0;   // after a failure: from SIGTERM to SIGKILL of the other ranks
  double settle_seconds = 2.0;  // how long a witness's error waits for the true cause before the
                                // ranks are stopped
  double stop_seconds = 0.0;    // after the user's signal: to SIGKILL; 0: as long as saving takes
  // Another node's launcher that gives no sign of life for so long is gone; after a failure half of
  // it is enough.
  double silence_seconds = 10.0;
  // What a rank last said about itself, where somebody knows; asked when it died without a report.
  std::function<std::optional<LastWord>(int64_t rank, int64_t restart_count)> last_word;
  int tail_lines = 20;  // of a failed rank's log, kept in the result
};

}  // namespace am::launch
