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
  // Port of the ranks' store (PyTorch's TCPStore). 0: node 0 chooses a free port, which requires
  // num_nodes == 1 or a non-null `store`.
  int master_port = 0;
  // Whether a launcher serves the ranks' store at master_addr:master_port
  // (TORCHELASTIC_USE_AGENT_STORE=True). Otherwise rank 0 serves the ranks' store.
  bool agent_store = false;
  // The launchers' own store, through which the launchers of all nodes agree on the first cause.
  // Null: each launcher looks for the cause among its node's ranks only. Must be a BackgroundStore,
  // because calls must not block. Not owned.
  KeyValueStore* store = nullptr;
  std::string run_id = "none";
  int64_t restart_count = 0;  // number of attempts before this one
  int64_t max_restarts = 0;
  // Environment variables of each rank, added to the launcher's environment and to torchrun's
  // variables. A variable of this list replaces other variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  // Folder for the files rank-R.log and rank-R.error.json of each rank R, created if missing.
  // Empty: a temporary folder, removed at the end.
  std::filesystem::path log_folder;
  // Time from SIGTERM to SIGKILL after a failure. The other ranks can end in this time.
  double grace_seconds = 5.0;
  // Time between the first failure and the stop of all ranks, if the failure may be a consequence
  // of another rank's failure. In this time, the other rank can report the cause.
  double settle_seconds = 2.0;
  // Time from the user's signal to SIGKILL. Ranks save a checkpoint in this time. 0: no limit.
  double stop_seconds = 0.0;
  // Time without a heartbeat after which another node's launcher counts as gone. After a failure on
  // any node, half of this time is enough.
  double silence_seconds = 10.0;
  // Returns the last state that a rank published, if known. Called for a rank that died without a
  // report.
  std::function<std::optional<LastWord>(int64_t rank, int64_t restart_count)> last_word;
  // Signal on which a rank's interpreter writes its stack to the rank's output, as Python's
  // faulthandler does. Before the launcher stops the ranks after a failure, it sends this signal to
  // every running rank with a handler for the signal. 0: none.
  int stack_signal = 0;
  int tail_lines = 20;  // number of lines of a rank's log that the result contains
};

}  // namespace am::launch
