// Folder locks of a plan's job, held by the process that started it from before the first rank to
// after the last.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/run_folder/run_folder.h"
#include "am/run_folder/run_lock.h"

namespace am_run {

// Environment variable in which am-run's launcher gives each rank the job's id. If it is set, the
// launcher of node 0 has locked the job's folders.
inline constexpr const char* kJobVariable = "AM_JOB_ID";
// Environment variable with the job's start by its launcher's clock: Unix time in seconds.
inline constexpr const char* kBeganVariable = "AM_JOB_BEGAN";

// Locks the run folder and, if it lies elsewhere, the checkpoint folder, which is created if
// missing. Notes on stderr a lock that an earlier job left behind. Throws as RunLock::take.
std::vector<am::run_folder::RunLock> take_locks(const am::run_folder::RunFolder& run,
                                                const std::filesystem::path& checkpoints,
                                                const std::string& job);

}  // namespace am_run
