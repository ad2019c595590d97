// What a job reads before its first step, opened without one: data and tokenizer, weights, the
// checkpoint that it would go on from.
#pragma once

#include <filesystem>
#include <vector>

#include "am/config/plan.h"
#include "am/launch/doctor/doctor.h"
#include "am/planner/rules.h"

namespace am_run {

// Of a checked plan that has a layout. `checkpoints`: where its step folders are.
std::vector<am::launch::Check> examine_inputs(const am::config::Plan& plan,
                                              const am::planner::CheckedPlan& checked,
                                              const std::filesystem::path& checkpoints);

}  // namespace am_run
