// How a job ended: each rank's end, the one that failed first, and the block that tells a person.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "am/launch/rank_error.h"

namespace am::launch {

// How one rank ended. Either `signal` is 0 and `exit_status` counts, or it died by `signal`.
struct RankExit {
  int64_t rank = 0;
  int exit_status = 0;
  int signal = 0;
  bool stopped = false;  // the launcher ended it: a consequence, not a cause
  double time = 0.0;     // seconds since the epoch when the launcher saw the end
  std::optional<RankError> error;
  std::filesystem::path log;  // empty where the folder was temporary
  std::vector<std::string>
      tail;  // last lines of its output; filled for ranks that failed by themselves

  bool ok() const { return exit_status == 0 && signal == 0; }
};

struct JobResult {
  int exit_status = 0;  // 0; of the cause; 1 where that died by a signal or the user killed the job
  int stop_signal = 0;  // the user's first signal; 0: none came
  bool killed = false;  // by a second signal, or stop_seconds ran out
  std::optional<size_t> cause;  // index into `ranks`
  std::vector<RankExit> ranks;
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
};

// The index of the rank whose failure made the others fail; nothing when none failed by itself. See
// Note [Which rank failed first].
std::optional<size_t> find_cause(std::span<const RankExit> ranks);

// Why the job failed, in one block of plain text ending with a newline: the cause's rank, node,
// exit status or signal, its own error and hint or the last lines of its log, then one line that
// counts the ranks that are no causes, and each rank's last collective where known. Empty when it
// did not fail.
std::string describe(const JobResult& result);

// "exit status 3", "signal SIGKILL (killed)".
std::string end_text(const RankExit& rank);

}  // namespace am::launch
