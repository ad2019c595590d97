// Resumes from a checkpoint that another program has written, with its optimizer states: that of a
// training framework, or a folder of torch.distributed.checkpoint.
//
//   const auto info = describe_foreign("titan/step-1000");    // step 1000
//   load_foreign("titan/step-1000", model, saved_states(optimizer, model));
#pragma once

#include <filesystem>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/parallel/parallel_model.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::train {

// Returns what a checkpoint.json would contain: the step, updates that were left out, and the
// optimizer's settings as facts. The step is the trainer's; without one, it is the number of
// updates; without either, as for SGD, it is 0. Throws Error(kPlan) if `path` has no weights or no
// optimizer states, and Error(kFormat) if the number of updates differs between parameters, or is
// missing although the optimizer needs it.
run_folder::CheckpointInfo describe_foreign(const std::filesystem::path& path);

// Reads this rank's boxes of the parameters and of `states`, by the names that the weights have.
// Parameters that have a master weight are read from it. Throws Error(kFormat), which names the
// parameter, if weights or states are missing or have another shape.
void load_foreign(const std::filesystem::path& path, parallel::ParallelModel& model,
                  const std::vector<checkpoint::StateTensor>& states);

}  // namespace am::train
