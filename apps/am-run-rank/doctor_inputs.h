// Opens a job's inputs (data and tokenizer, weights, the checkpoint to resume from) without
// starting a job.
#pragma once

#include <filesystem>
#include <vector>

#include "am/config/plan.h"
#include "am/launch/doctor/doctor.h"
#include "am/rules/check.h"

namespace am_run {

// Opens the job's inputs and returns one result per check: the loggers if the plan has any, the
// checkpoint, the data, and last the weights. For a job that would resume, the last check is not
// about the weights: it is whether the plan continues the run of the checkpoint. This check is
// omitted if the data cannot be read. `checked` must contain a mesh, a model and a layout.
// `checkpoints` is the folder with the job's checkpoints, one subfolder per saved step.
std::vector<am::launch::Check> examine_inputs(const am::config::Plan& plan,
                                              const am::rules::CheckedPlan& checked,
                                              const std::filesystem::path& checkpoints);

}  // namespace am_run
