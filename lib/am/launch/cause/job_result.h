// The result of a job: how each rank ended, which one failed first, and a description for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/launch/cause/rank_error.h"

namespace am::launch {

// The last state that a rank published about itself before it died.
struct LastWord {
  std::optional<int64_t> step;
  std::string whereabouts;  // "at step 7, in all_reduce world #5 for 3.0 s"
  double time = 0.0;        // when that state was published, in seconds since the epoch
};

// How one rank ended. If `signal` is 0, `exit_status` is valid; otherwise the rank died by
// `signal`.
struct RankExit {
  int64_t rank = 0;
  int64_t node = 0;
  int exit_status = 0;
  int signal = 0;
  bool stopped = false;  // the launcher stopped it: its end is a consequence, not a cause
  // The kernel reported the rank as stopped (SIGSTOP, a terminal or a debugger) when the first
  // failure was noticed.
  bool suspended = false;
  double time = 0.0;  // seconds since the epoch when the launcher saw the end
  std::optional<RankError> error;
  std::optional<LastWord> last_word;  // set for a rank that left no report
  std::filesystem::path log;          // on its node; empty where the folder was temporary
  std::vector<std::string> tail;      // last lines of its output; filled if it failed

  bool ok() const { return exit_status == 0 && signal == 0; }
};

// The rank whose failure made the others fail: see first_cause.h.
struct FirstCause {
  int64_t rank = 0;
  int64_t node = 0;
  std::optional<size_t> end;  // index into `ranks`; nothing for a rank of a silent node
  // Index into `ranks` of a rank that waited for the cause in a collective. If set, the cause is a
  // hang, and how the hanging rank ended is irrelevant.
  std::optional<size_t> witness;
};

// The launcher of another node that could not start its ranks.
struct FailedLauncher {
  int64_t node = 0;
  RankError error;
};

struct JobResult {
  int exit_status = 0;  // 0, or the cause's; 1 if the cause hung or died by a signal, or if the
                        // user killed the job
  int stop_signal = 0;  // the user's first signal; 0: none
  bool killed = false;  // by a second signal or an expired time limit
  bool killed_by_user = false;  // by a second signal: the user is waiting for the end
  bool ended_by_user = false;   // on this node or, with a store, another; prevents a restart
  bool wait_cut = false;        // the user interrupted the wait for the other nodes
  std::optional<FirstCause> cause;
  std::vector<RankExit> ranks;  // by rank; with a store, of all nodes that reported
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
  std::vector<int64_t> silent_nodes;  // nodes that did not report how their ranks ended
  std::vector<FailedLauncher> failed_launchers;
  std::string store_error;  // why the other nodes can no longer be reached through the store
  int64_t restarts = 0;     // attempts before this one
};

// Returns why the job failed, as a block of plain text that ends with a newline: the cause's rank,
// node and step, its end or the collective that it did not reach, its error and hint, its last
// collective, its log, and, if it left no error, the last lines of its output; then the other
// ranks. Empty if the job did not fail.
std::string describe(const JobResult& result);

// Returns {"rank", "node", "step", "hangs", "exit_status", "signal", "message", "hint",
// "last_collective", "log"}, with null for unknown values; the rank is unknown if a node's launcher
// or machine is gone. Returns null if there is no cause.
Json cause_json(const JobResult& result);

// "exit status 3", "signal SIGKILL (Killed)".
std::string end_text(const RankExit& rank);

}  // namespace am::launch
