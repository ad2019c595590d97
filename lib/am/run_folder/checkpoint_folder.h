// Finds the folder in which a job writes its checkpoints.
#pragma once

#include <filesystem>

#include "am/config/plan.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// Returns the plan's checkpoint.dir, which is relative to the plan file; RUN/checkpoints if the
// plan does not set it.
std::filesystem::path checkpoint_folder(const config::Plan& plan, const RunFolder& run);

}  // namespace am::run_folder
