// Step folders: the folders of a run's checkpoints. The functions here find, publish, replace and
// delete checkpoints. If the job is killed at any moment, no complete checkpoint is lost. The
// suffix of a folder's name shows the state of the checkpoint:
//
//   step-200              complete: a folder gets this name only after its last file is written
//   step-300.tmp          is being written
//   step-100.dropped      is being deleted
//   step-200.old          was replaced by a new step-200 (on file systems that cannot exchange two
//                         folders)
//   step-200.superseded   was renamed when training resumed from an earlier step; never deleted
//
// The functions are not collective. Only rank 0 of a job calls the functions that change folders,
// and only while the job holds the lock of the run folder, so that no other job changes the folders
// at the same time (run_lock.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

inline constexpr const char* kPartialSuffix = ".tmp";

// Returns why a checkpoint is incomplete: its checkpoint.json, its index.json or the data file of a
// rank is missing, is truncated, or belongs to another save. Returns nullopt if the checkpoint is
// complete. Does not read the values of tensors.
std::optional<std::string> why_incomplete(const std::filesystem::path& folder);

struct NewestCheckpoint {
  std::optional<CheckpointFolder> found;
  std::vector<std::string> skipped;  // incomplete newer checkpoints, each with the reason
};
// Returns the newest complete checkpoint. Throws Error(kIo) if the folder cannot be listed.
NewestCheckpoint newest_complete(const std::filesystem::path& checkpoints);
// Returns the step of the newest complete checkpoint that `job` wrote; nullopt if there is none.
std::optional<int64_t> newest_of_job(const std::filesystem::path& checkpoints,
                                     const std::string& job);

// Renames the folder `partial`, whose files are all written, to its final name `folder`. If
// `folder` exists already, replaces the old folder and deletes it; ignores errors of this deletion.
// Throws Error(kIo) or filesystem_error.
void publish(const std::filesystem::path& partial, const std::filesystem::path& folder);

// Cleans up after a job that was killed. Deletes folders that the job was writing or deleting. If
// the job was killed between the two renames that replace a checkpoint, restores the old
// checkpoint. Returns lines for the log: which folders were removed or restored, and which could
// not be removed.
std::vector<std::string> clean_up(const std::filesystem::path& checkpoints);

// Renames checkpoints of steps after `step` to step-N.superseded, or step-N.superseded.2 and so on
// if that name exists. Returns the new names. Throws filesystem_error.
std::vector<std::string> set_aside(const std::filesystem::path& checkpoints, int64_t step);

// Returns whether the checkpoint belongs to the training history `lineage`: a job of `lineage`
// wrote the checkpoint, and its step is not after the step from which the next job of `lineage`
// resumed.
bool is_ancestor(const CheckpointInfo& info, const std::vector<JobStep>& lineage);

struct KeptCheckpoints {
  int64_t newest = 0;  // number of newest checkpoints; 0: all
  int64_t every = 0;   // steps that this number divides are kept too; 0: none
  int64_t best = 0;    // number of checkpoints with the lowest validation losses, kept too
};
// Deletes the checkpoints of the history `lineage` that `kept` does not include. Does not delete
// checkpoints of other jobs. Ignores a folder that cannot be deleted.
void drop_old(const std::filesystem::path& checkpoints, const KeptCheckpoints& kept,
              const std::vector<JobStep>& lineage);

// Makes two symbolic links in the run folder: `latest`, to the newest checkpoint of the history
// `lineage`, and `best`, to the checkpoint of `lineage` with the lowest validation loss. Does not
// replace a file or folder with one of these names. Ignores errors, for example on a file system
// without links. `held` is the opened run folder: the links are made there even if another folder
// has taken the path of `run`.
void link_checkpoints(const RunFolder& run, const HeldFolder& held,
                      const std::filesystem::path& checkpoints,
                      const std::vector<JobStep>& lineage);

}  // namespace am::run_folder
