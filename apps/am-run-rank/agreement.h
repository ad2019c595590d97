// Functions that a job calls before its first step. They check that all ranks have the same plan
// and see the same run folder and checkpoint folder, and they create and lock these folders.
//
// All functions are collective and throw the same Error on every rank. If the plan or the folders
// of a rank differ from those of rank 0, the Error names the first rank with a difference.
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

// Throws Error(kPlan) if a rank's plan differs from rank 0's. Without this check, ranks with
// different plans would train different models or wait for each other forever.
void compare_plans(const am::config::Plan& plan, const am::runtime::World& world);

// Creates the run folder and the checkpoint folder on rank 0, then checks that every rank sees
// both folders, because every rank writes checkpoints. If `made` is set, am-run's launcher has
// already created the folders, and this function does not create them: a folder that is missing was
// removed since then, which is an error.
void share_folders(const am::run_folder::RunFolder& run, const std::filesystem::path& checkpoints,
                   bool made, const am::runtime::World& world);

// If the ranks were started without am-run's launcher (by torchrun, for example), rank 0 locks the
// folders and returns the locks, and other ranks return none. If am-run's launcher started them,
// it has already locked the folders: every rank returns no locks, and the function throws if the
// run folder's lock no longer belongs to this job.
std::vector<am::run_folder::RunLock> lock_folders(const am::run_folder::RunFolder& run,
                                                  const std::filesystem::path& checkpoints,
                                                  const am::run_folder::JobIdentity& job,
                                                  const am::runtime::World& world);

}  // namespace am_run
