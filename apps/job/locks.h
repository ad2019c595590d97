// The locks of a job of a plan: whoever started it holds its folders, from before the first rank to
// after the last.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/run_folder/run_folder.h"
#include "am/run_folder/run_lock.h"

namespace am_run {

// Of a rank's environment: the job's id, from the launcher of ours that started it and holds its
// folders.
inline constexpr const char* kJobVariable = "AM_JOB_ID";

// The run folder's, and that of a folder for checkpoints which lies elsewhere; made where it is
// missing. Says on stderr when a job had left one behind. Throws as RunLock::take.
std::vector<am::run_folder::RunLock> take_locks(const am::run_folder::RunFolder& run,
                                                const std::filesystem::path& checkpoints,
                                                const std::string& job);

}  // namespace am_run
