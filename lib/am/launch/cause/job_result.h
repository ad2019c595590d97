// The result of a job: how each rank ended, which rank failed first, and a description for people.
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
  std::string whereabouts;  // for example "at step 7, in all_reduce world #5 for 3.0 s"
  double time = 0.0;        // when the rank published this state, in seconds since the epoch
};

// How one rank ended. If `signal` is 0, the rank exited with `exit_status`; otherwise it died by
// `signal`.
struct RankExit {
  int64_t rank = 0;
  int64_t node = 0;
  int exit_status = 0;
  int signal = 0;
  // Whether the rank ended because the launcher stopped it. Its end is then not the cause.
  bool stopped = false;
  // The kernel reported the rank as stopped (SIGSTOP, a terminal or a debugger) when the first
  // failure was noticed.
  bool suspended = false;
  double time = 0.0;  // when the launcher saw the rank's end, in seconds since the epoch
  std::optional<RankError> error;
  std::optional<LastWord> last_word;  // set only for a rank that left no error report
  // Line that the rank's interpreter executed when the launcher stopped the rank after another
  // rank's failure, for example "train_step (train.py:42)"; empty if it is unknown.
  std::string position;
  // Path of the rank's log file on the rank's node; empty if the log folder was temporary.
  std::filesystem::path log;
  std::vector<std::string> tail;  // last lines of output

  bool ok() const { return exit_status == 0 && signal == 0; }
};

// The rank whose failure made the others fail: see first_cause.h.
struct FirstCause {
  int64_t rank = 0;
  int64_t node = 0;
  // Index of the rank in JobResult::ranks; nothing if its end was not reported.
  std::optional<size_t> end;
  // Index in JobResult::ranks of a rank that waited in a collective for the rank that caused the
  // failure. If set, the cause is a hang, and how the hanging rank ended is irrelevant.
  std::optional<size_t> witness;
};

// A launcher that could not start the ranks of its node.
struct FailedLauncher {
  int64_t node = 0;
  RankError error;
};

struct JobResult {
  // 0 if the job succeeded; otherwise the exit status of the rank or launcher that failed first, or
  // 1 if there is none: the rank hung or died by a signal, a node was lost, or the user killed the
  // job.
  int exit_status = 0;
  int stop_signal = 0;  // the user's first signal; 0: none
  // Whether the launcher sent SIGKILL to the ranks, after the user's second signal or an expired
  // time limit.
  bool killed = false;
  bool killed_by_user = false;  // whether the user's second signal was the reason for SIGKILL
  // Whether a signal of the user ended the job, on this node or, with a store, on another; the job
  // is then not restarted.
  bool ended_by_user = false;
  bool wait_cut = false;  // the user interrupted the wait for the other nodes
  std::optional<FirstCause> cause;
  // How each rank ended, sorted by rank: the ranks of this node or, with a store, of all nodes that
  // reported.
  std::vector<RankExit> ranks;
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
  std::vector<int64_t> silent_nodes;  // nodes that did not report how their ranks ended
  std::vector<FailedLauncher> failed_launchers;
  std::string store_error;  // why the store cannot be reached any more; empty: it can
  int64_t restarts = 0;     // number of attempts of the job before this one
};

// Returns a description of the failure as lines of plain text; empty if the job succeeded. The text
// begins with the cause. For a rank, it contains the node and step, how the rank ended or which
// collective the rank did not reach, the error, hint, last collective and log, and, if the rank
// reported no error or hung, the last lines of output. The ends of the other ranks follow.
std::string describe(const JobResult& result);

// Returns the cause as {"rank", "node", "step", "hangs", "exit_status", "signal", "message",
// "hint", "last_collective", "log"}, with null for unknown values; the rank is unknown if a node's
// launcher or machine is gone. Returns null if there is no cause.
Json cause_json(const JobResult& result);

// Returns how the rank ended, for example "exit status 3" or "signal SIGKILL (Killed)".
std::string end_text(const RankExit& rank);

}  // namespace am::launch
