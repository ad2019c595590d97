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

// The last state that a rank published before it died (RankState).
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
  // Whether the rank ended because the launcher stopped it. The rank's exit status and signal then
  // do not show the cause of the failure.
  bool stopped = false;
  // Whether the kernel had suspended the rank (after SIGSTOP, or for a terminal or a debugger) when
  // the launcher noticed the first failure.
  bool suspended = false;
  double time = 0.0;  // when the launcher saw the rank's end, in seconds since the epoch
  std::optional<RankError> error;
  std::optional<LastWord> last_word;  // set only for a rank that left no error report
  // Line of code that the rank's interpreter executed when the launcher stopped the rank after
  // another rank's failure, for example "train_step (train.py:42)"; empty if the line is unknown.
  std::string position;
  // Path of the rank's log file on the rank's node; empty if the log folder was temporary.
  std::filesystem::path log;
  std::vector<std::string> tail;  // last lines of the rank's output; may be empty

  bool ok() const { return exit_status == 0 && signal == 0; }
};

// The rank whose failure made the other ranks fail. find_cause() (first_cause.h) determines it.
struct FirstCause {
  int64_t rank = 0;
  int64_t node = 0;
  // Index of the rank in JobResult::ranks; nothing if no launcher reported how the rank ended.
  std::optional<size_t> end;
  // Index in JobResult::ranks of a rank that waited in a collective for the rank that caused the
  // failure. If set, the cause is a hang, and how the hanging rank ended is irrelevant.
  std::optional<size_t> witness;
};

// A launcher that gave up, for example because it could not start the ranks of its node.
struct FailedLauncher {
  int64_t node = 0;
  RankError error;
};

struct JobResult {
  // 0 if the job succeeded; otherwise the exit status of the rank that caused the failure or of a
  // launcher that gave up. 1 if there is no such status: the rank hung or died by a signal, a node
  // was lost, or the user stopped the job before it succeeded. If the rank that caused the failure
  // was suspended or exited with status 0, the exit status of another failed rank replaces its own.
  int exit_status = 0;
  int stop_signal = 0;  // the user's first signal; 0: none
  // Whether the launcher sent SIGKILL to the ranks, after the user's second signal or an expired
  // time limit.
  bool killed = false;
  bool killed_by_user = false;  // whether the user's second signal was the reason for SIGKILL
  // Whether the user sent a signal to end the job: to this node's launcher or, if the launchers
  // share a store, to another node's. The job is then not restarted.
  bool ended_by_user = false;
  bool wait_cut = false;  // the user interrupted the wait for the other nodes
  std::optional<FirstCause> cause;
  // How each rank ended, sorted by rank. Contains the ranks of this node or, if the launchers share
  // a store, of all nodes that reported.
  std::vector<RankExit> ranks;
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
  // Nodes whose launchers sent no heartbeat for a while and did not report how their ranks ended.
  std::vector<int64_t> silent_nodes;
  std::vector<FailedLauncher> failed_launchers;
  std::string store_error;  // why the store is lost; empty: it is not lost, or no longer needed
  int64_t restarts = 0;     // number of attempts of the job before this one
};

// Returns a description of the failure as lines of plain text; empty if the job succeeded. The text
// begins with the cause. If the cause is a rank, the text contains its node and step, how the rank
// ended or which collective it did not reach, its error, hint, last collective and log. If the
// rank hung or reported no error, the last lines of its output are added. The text ends with how
// the other ranks ended.
std::string describe(const JobResult& result);

// Returns the cause as {"rank", "node", "step", "hangs", "exit_status", "signal", "message",
// "hint", "last_collective", "log"}, with null for unknown values. The rank is null if the cause is
// not a rank but a node whose launcher gave up, died or is unreachable. Returns null if there is no
// cause.
Json cause_json(const JobResult& result);

// Returns how the rank ended, for example "exit status 3" or "signal SIGKILL (Killed)".
std::string end_text(const RankExit& rank);

}  // namespace am::launch
