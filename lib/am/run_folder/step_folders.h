// The step folders (checkpoints) of a run: which are complete, and how they are written, replaced
// and deleted, so that a kill at any moment loses no complete checkpoint.
//
//   step-200              complete, once it has this name
//   step-300.tmp          being written
//   step-100.dropped      being deleted
//   step-200.old          replaced by a new step-200, where folders cannot be exchanged
//   step-200.superseded   set aside when training resumed from an earlier step; never deleted
//
// No function here is collective: rank 0 calls them, in a folder where no other job writes
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

// Returns why a step folder cannot be opened: checkpoint.json, index.json or a rank's file is
// missing, truncated, or of another save. Returns nothing if it is complete. Does not read tensor
// data.
std::optional<std::string> why_incomplete(const std::filesystem::path& folder);

struct NewestCheckpoint {
  std::optional<CheckpointFolder> found;
  std::vector<std::string> skipped;  // newer folders, with the reason
};
// Returns the newest complete checkpoint. Throws Error(kIo) if the folder cannot be listed.
NewestCheckpoint newest_complete(const std::filesystem::path& checkpoints);
// Returns the step of the newest complete checkpoint written by `job`.
std::optional<int64_t> newest_of_job(const std::filesystem::path& checkpoints,
                                     const std::string& job);

// Renames the finished folder to its final name, and deletes the folder that had this name. Throws
// Error(kIo) or filesystem_error.
void publish(const std::filesystem::path& partial, const std::filesystem::path& folder);

// Completes the operations of a killed job: deletes unfinished and half-deleted folders, and
// restores the name of a folder whose replacement is missing. Returns a description of each
// operation, for the log.
std::vector<std::string> clean_up(const std::filesystem::path& checkpoints);

// Renames checkpoints after `step` to step-N.superseded (.superseded.2, ...) and returns the new
// names. Throws filesystem_error.
std::vector<std::string> set_aside(const std::filesystem::path& checkpoints, int64_t step);

// Whether the checkpoint is part of the training history `lineage`.
bool is_ancestor(const CheckpointInfo& info, const std::vector<JobStep>& lineage);
// Deletes all but the `keep` newest checkpoints of the history `lineage`; deletes nothing if `keep`
// is 0. Checkpoints of other jobs remain. A folder that cannot be deleted is not an error.
void drop_old(const std::filesystem::path& checkpoints, int64_t keep,
              const std::vector<JobStep>& lineage);

}  // namespace am::run_folder
