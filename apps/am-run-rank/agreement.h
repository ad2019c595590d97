// Facts on which the ranks of a job must agree, checked before the first step.
//
// All functions are collective and throw the same Error, which names the rank that differs, on
// every rank.
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

// Throws if a rank has another plan than rank 0: the ranks would train different models or wait for
// each other forever.
void compare_plans(const am::config::Plan& plan, const am::runtime::World& world);

// Creates the run folder and the checkpoint folder on rank 0, then checks that every rank sees
// both, since every rank writes checkpoints. `made`: am-run's launcher has already created them, so
// a missing folder was removed since and is not created again.
void share_folders(const am::run_folder::RunFolder& run, const std::filesystem::path& checkpoints,
                   bool made, const am::runtime::World& world);

// Without am-run's launcher, rank 0 locks the folders itself and returns the locks; the other ranks
// return none. With am-run's launcher, which holds the locks, throws if the run folder's lock no
// longer belongs to this job.
std::vector<am::run_folder::RunLock> lock_folders(const am::run_folder::RunFolder& run,
                                                  const std::filesystem::path& checkpoints,
                                                  const am::run_folder::JobIdentity& job,
                                                  const am::runtime::World& world);

}  // namespace am_run
