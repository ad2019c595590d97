// Locks the folders of a plan's job, so that no second job writes to them. The process that starts
// the job's ranks takes the locks before the first rank starts, and releases them when the last
// rank has ended.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/run_folder/run_folder.h"
#include "am/run_folder/run_lock.h"

namespace am_run {

// Environment variable with which am-run's launcher passes the job's id to each rank. If the
// variable is set, the launcher of node 0 has locked the job's folders.
inline constexpr const char* kJobVariable = "AM_JOB_ID";
// Environment variable with which am-run's launcher passes its start time to each rank, as Unix
// time in seconds.
inline constexpr const char* kBeganVariable = "AM_JOB_BEGAN";

// Locks the run folder. Also locks the checkpoint folder, unless this is the run folder or its
// subfolder checkpoints/. Creates the checkpoint folder if it is missing. Prints a note on stderr
// about a lock that an ended job left behind. Throws the errors of RunLock::take, for example if a
// running job holds the lock.
std::vector<am::run_folder::RunLock> take_locks(const am::run_folder::RunFolder& run,
                                                const std::filesystem::path& checkpoints,
                                                const std::string& job);

}  // namespace am_run
