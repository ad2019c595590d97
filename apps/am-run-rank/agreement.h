// What the ranks of a job must agree on before the first step: found out now, not after an hour.
//
// All are collective and throw the same Error, which names the rank that differs, on every rank.
#pragma once

#include <filesystem>
#include <vector>

#include "am/config/plan.h"
#include "am/run_folder/job_record.h"
#include "am/run_folder/run_folder.h"
#include "am/run_folder/run_lock.h"
#include "am/runtime/world.h"
#include "am/train/job_identity.h"

namespace am_run {

// Ranks that were given different plans would train different models, or wait for each other for
// ever.
void compare_plans(const am::config::Plan& plan, const am::runtime::World& world);

// Makes the run folder and the one for checkpoints on rank 0, and makes sure that every rank sees
// both: all of them write a checkpoint. `made`: a launcher of ours has made them, and one that is
// not there was removed since.
void share_folders(const am::run_folder::RunFolder& run, const std::filesystem::path& checkpoints,
                   bool made, const am::runtime::World& world);

// Of a rank 0 that no launcher of ours has started: it holds the folders as the launcher would.
// Empty on the others. Where a launcher of ours holds them, the run folder's lock must be the job's
// still.
std::vector<am::run_folder::RunLock> lock_folders(const am::run_folder::RunFolder& run,
                                                  const std::filesystem::path& checkpoints,
                                                  const am::run_folder::JobIdentity& job,
                                                  const am::runtime::World& world);

}  // namespace am_run
