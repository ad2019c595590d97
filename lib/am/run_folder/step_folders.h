// The step folders of a run: which of them are whole, and how they come, give way and go, so that a
// kill at any moment costs none that was whole.
//
//   step-200              whole, once it has this name
//   step-300.tmp          being written
//   step-100.dropped      being deleted
//   step-200.old          gave way to a new step-200, where folders cannot be exchanged
//   step-200.superseded   set aside when training went back to an earlier step; never deleted
//
// Nothing here is collective: rank 0's, in a folder where no other job writes
// (run_folder/run_lock.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

inline constexpr const char* kPartialSuffix = ".tmp";

// Why a step folder cannot be opened: checkpoint.json, index.json or a rank's file is missing, cut
// off, or of another save. Nothing: it is whole. Data is not read.
std::optional<std::string> why_incomplete(const std::filesystem::path& folder);

struct NewestCheckpoint {
  std::optional<CheckpointFolder> found;
  std::vector<std::string> skipped;  // newer ones, and why
};
// The newest that is whole. Throws Error(kIo) when the folder cannot be listed.
NewestCheckpoint newest_complete(const std::filesystem::path& checkpoints);
// The step of the newest whole one that `job` has written.
std::optional<int64_t> newest_of_job(const std::filesystem::path& checkpoints,
                                     const std::string& job);

// Gives the finished folder its name; what had it goes. Throws Error(kIo) or filesystem_error.
void publish(const std::filesystem::path& partial, const std::filesystem::path& folder);

// Ends what a killed job had begun: unfinished and half deleted folders go, one that gave way to
// nothing gets its name back. What was done, for the log.
std::vector<std::string> clean_up(const std::filesystem::path& checkpoints);

// Renames what lies beyond `step` to step-N.superseded (.superseded.2, ...); the new names. Throws
// filesystem_error.
std::vector<std::string> set_aside(const std::filesystem::path& checkpoints, int64_t step);

// Whether the checkpoint lies on the way that `lineage` went.
bool is_ancestor(const CheckpointInfo& info, const std::vector<JobStep>& lineage);
// Deletes all but the `keep` newest of those that lie on the way of `lineage`; nothing for 0. What
// other jobs have written stays. One that cannot be deleted is no error.
void drop_old(const std::filesystem::path& checkpoints, int64_t keep,
              const std::vector<JobStep>& lineage);

}  // namespace am::run_folder
