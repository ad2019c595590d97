// Input of one node's launcher: the program, the ranks to start, and time limits.
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
  std::vector<std::string> argv;  // program (looked up in PATH if it has no slash) and arguments
  int64_t nproc = 1;              // number of ranks on this machine
  int64_t node_rank = 0;
  int64_t num_nodes = 1;  // number of machines, all with the same nproc
  std::string master_addr = "127.0.0.1";
  // Port of the rendezvous. 0: node 0 chooses a free port, which requires num_nodes == 1 or a
  // store.
  int master_port = 0;
  // Whether a launcher serves the store at master_addr:master_port
  // (TORCHELASTIC_USE_AGENT_STORE=True); otherwise rank 0 does.
  bool agent_store = false;
  // The store through which the launchers of all nodes agree on the first cause. Null: each
  // launcher looks for the cause among its node's ranks only. Calls of the store must not block, so
  // it must be a BackgroundStore. Not owned.
  KeyValueStore* store = nullptr;
  std::string run_id = "none";
  int64_t restart_count = 0;  // number of attempts before this one
  int64_t max_restarts = 0;
  // Variables that are added to the launcher's environment for each rank, or replace its variables
  // of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  // Folder for rank-R.log and rank-R.error.json, created if missing. Empty: a temporary folder,
  // removed at the end.
  std::filesystem::path log_folder;
  // Time from SIGTERM to SIGKILL, in which the other ranks can end after a failure.
  double grace_seconds = 5.0;
  // After a failure that another rank may have caused, time that the launcher waits for the other
  // rank's report before it stops all ranks.
  double settle_seconds = 2.0;
  // Time from the user's signal to SIGKILL, in which ranks save a checkpoint; 0: no limit.
  double stop_seconds = 0.0;
  // Time without a heartbeat after which another node's launcher counts as gone; half of this time
  // once a rank has failed.
  double silence_seconds = 10.0;
  // Returns the last state that a rank published, if known. Called for a rank that died without a
  // report.
  std::function<std::optional<LastWord>(int64_t rank, int64_t restart_count)> last_word;
  // Signal on which a rank's interpreter writes its stack to the rank's output, as Python's
  // faulthandler does. After a failure it is sent to the other ranks, if they have a handler for
  // it, before they are stopped. 0: none.
  int stack_signal = 0;
  int tail_lines = 20;  // number of lines of a rank's log that the result contains
};

}  // namespace am::launch
