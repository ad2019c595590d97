// Finds the folder in which a job writes its checkpoints.
#pragma once

#include <filesystem>

#include "am/config/plan.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// Returns the plan's checkpoint.dir, which is relative to the plan file, or the folder
// "checkpoints" in the run folder if the plan does not set checkpoint.dir.
std::filesystem::path checkpoint_folder(const config::Plan& plan, const RunFolder& run);

}  // namespace am::run_folder
