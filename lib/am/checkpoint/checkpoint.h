// am-run's own checkpoints: a folder per step that appears whole or not at all.
//
//   checkpoints/step-100/
//     checkpoint.json        step, world and mesh, and how it came to be: checkpoint_info.h
//     plan.toml config.json  what made it: enough to open it again anywhere
//     rank-00000.safetensors one file a rank: its boxes of parameters and optimizer moments
//
// Every box carries its offset and the global shape, so any layout can read what any other wrote.
// Replicas are written once. Ranks write into `step-100.tmp`, which rank 0 renames when all have
// finished (step_folders.h). All files of a save carry its id.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "am/parallel/parallel_model.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::checkpoint {

// A tensor laid out like a parameter and saved with it: an optimizer moment.
struct StateTensor {
  std::string key;  // "optim.state.model.norm.weight.exp_avg"
  const parallel::OwnedParameter* parameter = nullptr;
  at::Tensor value;  // [parameter->box.shape]
};

// Collective over the mesh's world. `folder` is checkpoints/step-N; the save's id is drawn here.
// Throws Error(kIo) on every rank when one could not write; then nothing is left but the old
// checkpoints.
void save_checkpoint(const std::filesystem::path& folder, run_folder::CheckpointInfo info,
                     const std::string& plan_toml, parallel::ParallelModel& model,
                     const std::vector<StateTensor>& state);

}  // namespace am::checkpoint
