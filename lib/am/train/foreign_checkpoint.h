// Resumes, with optimizer states, from a checkpoint that another program has written: a training
// framework, or torch.distributed.checkpoint.
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

// Returns the contents of the checkpoint.json that am-run would have written: the step, the number
// of skipped updates, and the optimizer's settings (CheckpointInfo::facts). The step is the larger
// of two stored numbers, the training step and the number of the optimizer's updates; 0 if neither
// is stored, as for SGD. Throws Error(kPlan) if `path` has no weights or no optimizer states.
// Throws Error(kFormat) if the number of updates differs between parameters, or if neither number
// is stored but the optimizer needs one of them, as Adam does.
run_folder::CheckpointInfo describe_foreign(const std::filesystem::path& path);

// Reads this rank's boxes of the parameters into `model`, and of the optimizer states into
// `states`. A state is found by the name that its parameter has in the checkpoint. If the
// checkpoint has a master weight of a parameter, the parameter is read from the master weight.
// Throws Error(kFormat) if weights, adapters or states are missing or have another shape.
void load_foreign(const std::filesystem::path& path, parallel::ParallelModel& model,
                  const std::vector<checkpoint::StateTensor>& states);

}  // namespace am::train
