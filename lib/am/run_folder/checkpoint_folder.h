// The folder of a run's checkpoints.
#pragma once

#include <filesystem>

#include "am/config/plan.h"
#include "am/run_folder/run_folder.h"

namespace am::run_folder {

// Returns checkpoint.dir relative to the plan, or RUN/checkpoints.
std::filesystem::path checkpoint_folder(const config::Plan& plan, const RunFolder& run);

}  // namespace am::run_folder
