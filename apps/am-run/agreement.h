// What the ranks of a job must agree on before the first step: found out now, not after an hour.
//
// Both are collective and throw the same Error(kPlan), which names the rank that differs, on every
// rank.
#pragma once

#include "am/config/plan.h"
#include "am/launch/run_folder.h"
#include "am/runtime/world.h"

namespace am_run {

// Ranks that were given different plans would train different models, or wait for each other for
// ever.
void compare_plans(const am::config::Plan& plan, const am::runtime::World& world);

// Makes the run folder on rank 0, and makes sure that every rank sees it: all of them write a
// checkpoint.
void share_run_folder(const am::launch::RunFolder& run, const am::runtime::World& world);

}  // namespace am_run
