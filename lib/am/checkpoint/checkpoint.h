// am-run's own checkpoints: a folder per step that appears atomically, and that stock
// torch.distributed.checkpoint loads.
//
//   checkpoints/step-100/
//     checkpoint.json        step, world and mesh, and how it came to be: checkpoint_info.h
//     index.json             every box of every tensor, and its checksums: shard_index.h
//     plan.toml config.json  plan and model config: enough to open it again anywhere
//     __0_0.distcp           one file per rank: its boxes of parameters and optimizer moments
//     .metadata              the same index for PyTorch, where it is not too large
//
// Every box carries its offset and the global shape, so a job of any layout can read the
// checkpoint. A box that several ranks hold is written by one of these ranks, chosen so that all
// ranks write about equally much. Ranks write into `step-100.tmp`, which rank 0 renames when all
// have finished (save_folder.h, step_folders.h). All files of a save carry the save's id.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/checkpoint/optimizer_values.h"
#include "am/parallel/parallel_model.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::checkpoint {

// A tensor laid out like a parameter and saved with it: an optimizer moment.
struct StateTensor {
  std::string key;  // "optim.state.model.norm.weight.exp_avg"
  const parallel::LocalParameter* parameter = nullptr;
  at::Tensor value;  // [parameter->box.shape]
};

// Contents of a checkpoint; equal on every rank except for the tensors.
struct SavedState {
  run_folder::CheckpointInfo info;  // the save's id is set when the save begins
  std::string plan_toml;
  std::vector<StateTensor> states = {};
  std::optional<SavedOptimizer> optimizer = {};  // read by PyTorch only
  int64_t metadata_parts = 0;                    // checkpoint.metadata_parts
  // Throws if the checkpoint folder no longer belongs to this job. Called on rank 0 before a save
  // writes or removes anything, and on a rank that could not write, to explain the error.
  std::function<void()> require_place = [] {};
};

// Collective over the mesh's world. `folder` is checkpoints/step-N. Throws Error(kIo) on every rank
// if one could not write; then only the old checkpoints remain.
void save_checkpoint(const std::filesystem::path& folder, const SavedState& state,
                     parallel::ParallelModel& model);

}  // namespace am::checkpoint
