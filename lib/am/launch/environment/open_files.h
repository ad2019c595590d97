// Computes how many open files and connections launchers and ranks need, and checks the limit.
//
//   require_open_files({.ranks_here = 8, .ranks_served = 16384, .launchers_served = 2047});
//
// The kernel limits the number of files that a process has open, including connections. The soft
// limit applies, and a process may raise its soft limit to the hard limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace am::launch {

// Largest numbers of files that a process may have open; the largest int64 means unlimited.
struct OpenFileLimit {
  int64_t soft = 0;
  int64_t hard = 0;
};

// Returns this process's limits; unlimited if they are unknown.
OpenFileLimit open_file_limit();
// Raises the soft limit to the hard limit if the soft limit is below `wanted`. Returns the limits
// before the change.
OpenFileLimit raise_open_files(int64_t wanted);
// Restores the soft limit that this process had before raise_open_files() first raised it. Makes
// only system calls, so a child process may call this function between fork and exec.
void restore_open_files();

// Numbers of the processes for which a launcher opens files.
struct LauncherFiles {
  int64_t ranks_here = 1;  // ranks that the launcher starts
  // Numbers of ranks and of other launchers that connect to the store that this launcher serves.
  // The launcher of node 0 serves a store; on other nodes, both numbers are 0.
  int64_t ranks_served = 0;
  int64_t launchers_served = 0;
};

// Returns the number of open files that a launcher needs, as a sum of three numbers: 64, or 32 + 2
// per rank that the launcher starts if this is more; one per other launcher that it serves; and 3
// per rank that it serves or starts, whichever number of ranks is larger.
int64_t open_files_of_launcher(const LauncherFiles& files);
// Returns a message with the hard limit and the number of open files that the launcher needs;
// nothing if the hard limit is sufficient.
std::optional<std::string> open_files_problem(const LauncherFiles& files,
                                              const OpenFileLimit& limit);
// Returns a help text that describes how to raise the hard limit to `wanted`.
std::string open_files_help(int64_t wanted);
// Returns the number of open files that a rank needs: two per rank of the job for connections, and
// 64 for the connection to the store, the rank's own files and libtorch's files.
int64_t open_files_of_rank(int64_t world_size);
// Raises the soft limit to the hard limit if the launcher needs more open files. If the hard limit
// is too low, throws Error(kPlan) with the texts of open_files_problem() and open_files_help().
void require_open_files(const LauncherFiles& files);

}  // namespace am::launch
