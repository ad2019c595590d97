// How a job ended: each rank's end, the one that failed first, and the block that tells a person.
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

// What a rank published about itself, some time before it died.
struct LastWord {
  std::optional<int64_t> step;
  std::string whereabouts;  // "at step 7, in all_reduce world #5 for 3.0 s"
  double time = 0.0;        // when it was so, in seconds since the epoch
};

// How one rank ended. Either `signal` is 0 and `exit_status` counts, or it died by `signal`.
struct RankExit {
  int64_t rank = 0;
  int64_t node = 0;
  int exit_status = 0;
  int signal = 0;
  bool stopped = false;  // the launcher ended it: a consequence, not a cause
  // It was stopped by SIGSTOP, a terminal or a debugger when the first failure was seen: the kernel
  // said so.
  bool suspended = false;
  double time = 0.0;  // seconds since the epoch when the launcher saw the end
  std::optional<RankError> error;
  std::optional<LastWord> last_word;  // of one that left no report
  std::filesystem::path log;          // on its node; empty where the folder was temporary
  std::vector<std::string> tail;      // last lines of its output; filled where it did not end well

  bool ok() const { return exit_status == 0 && signal == 0; }
};

// The rank whose failure made the others fail: see first_cause.h.
struct FirstCause {
  int64_t rank = 0;
  int64_t node = 0;
  std::optional<size_t> end;  // index into `ranks`; nothing for a rank of a node that is silent
  // Index into `ranks`. The cause did not arrive at this rank's collective: how it ended is of no
  // matter.
  std::optional<size_t> witness;
};

// Another node's launcher that gave up: it could not start its ranks.
struct FailedLauncher {
  int64_t node = 0;
  RankError error;
};

struct JobResult {
  int exit_status = 0;  // 0; of the cause; 1 where that hung, died by a signal, or the user killed
                        // the job
  int stop_signal = 0;  // the user's first signal; 0: none came
  bool killed = false;  // by a second signal, or a time limit ran out
  bool killed_by_user = false;  // by a second signal: the user waits for the end
  bool ended_by_user = false;   // here or, with a store, on another node: no reason to start again
  bool wait_cut = false;        // the user did not want to wait for the other nodes
  std::optional<FirstCause> cause;
  std::vector<RankExit> ranks;  // by rank; with a store, of all nodes that told
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
  std::vector<int64_t> silent_nodes;  // that did not tell how their ranks ended
  std::vector<FailedLauncher> failed_launchers;
  std::string store_error;  // why the other nodes could not be asked any more
  int64_t restarts = 0;     // attempts before this one
};

// Why the job failed, in one block of plain text ending with a newline: the cause's rank, node and
// step, its end or the collective at which it is missing, its error and hint, its last collective,
// its log, and the last lines of its output where it left no error; then the other ranks. Empty
// when the job did not fail.
std::string describe(const JobResult& result);

// {"rank", "node", "step", "hangs", "exit_status", "signal", "message", "hint", "last_collective",
// "log"}, null where unknown: no rank where a node's launcher or machine is gone. Null where there
// is no cause.
Json cause_json(const JobResult& result);

// "exit status 3", "signal SIGKILL (Killed)".
std::string end_text(const RankExit& rank);

}  // namespace am::launch
