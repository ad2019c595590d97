// Opens a job's inputs (data and tokenizer, weights, the checkpoint to resume from) without
// starting a job.
#pragma once

#include <filesystem>
#include <vector>

#include "am/config/plan.h"
#include "am/launch/doctor/doctor.h"
#include "am/rules/check.h"

namespace am_run {

// Requires a checked plan that has a layout. `checkpoints`: folder of the step folders.
std::vector<am::launch::Check> examine_inputs(const am::config::Plan& plan,
                                              const am::rules::CheckedPlan& checked,
                                              const std::filesystem::path& checkpoints);

}  // namespace am_run
