// Number of open files and connections that a launcher needs, and the limit for them.
//
//   require_open_files({.ranks_here = 8, .ranks_served = 16384, .launchers_served = 2047});
//
// The kernel limits the open files of a process: a soft limit, which the process may raise to the
// hard limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace am::launch {

// The limits of open files. Unlimited is the largest int64.
struct OpenFileLimit {
  int64_t soft = 0;
  int64_t hard = 0;
};

// Returns this process's limits.
OpenFileLimit open_file_limit();
// Raises the soft limit to the hard limit if the soft limit is below `wanted`. Returns the limits
// before the change.
OpenFileLimit raise_open_files(int64_t wanted);
// Restores the soft limit from before the first call of raise_open_files in this process. Makes
// only system calls, so it is safe in a child between fork and exec.
void restore_open_files();

// Numbers of the processes that a launcher starts and serves, for which it opens files.
struct LauncherFiles {
  int64_t ranks_here = 1;  // ranks that the launcher starts
  // Numbers of ranks and of other launchers that connect to the job's store, which node 0 serves; 0
  // on other nodes.
  int64_t ranks_served = 0;
  int64_t launchers_served = 0;
};

// Returns the number of open files that a launcher needs: 64 for itself (or 32 + 2 per rank that it
// starts, if more), one per other launcher that it serves, and 3 per rank of the job (on node 0) or
// of its machine (on other nodes).
int64_t open_files_of_launcher(const LauncherFiles& files);
// Returns a message with the required number of files and the hard limit; nothing if the limit is
// sufficient.
std::optional<std::string> open_files_problem(const LauncherFiles& files,
                                              const OpenFileLimit& limit);
// Returns a help text that describes how to raise the hard limit to `wanted`.
std::string open_files_help(int64_t wanted);
// Returns the number of open files that a rank needs: two per rank of the job for connections, and
// 64 for the store, the rank's own files and those of libtorch.
int64_t open_files_of_rank(int64_t world_size);
// Raises the soft limit if the launcher needs more. If the hard limit is too low, throws
// Error(kPlan) with the texts of open_files_problem() and open_files_help().
void require_open_files(const LauncherFiles& files);

}  // namespace am::launch
