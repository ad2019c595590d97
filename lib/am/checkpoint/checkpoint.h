// am-run's own checkpoints: one folder per saved step, which appears atomically. PyTorch's
// torch.distributed.checkpoint can load the folder without this library.
//
//   checkpoints/step-100/
//     checkpoint.json        step, world size, mesh, jobs that trained the model: checkpoint_info.h
//     index.json             location and checksums of every box of every tensor: shard_index.h
//     plan.toml config.json  plan and model config, which are enough to open a copied folder
//     __0_0.distcp           one file per rank, with its boxes of parameters and optimizer states
//     .metadata              the index in PyTorch's format, unless it would be too large
//
// The index contains the offset of every box and the global shapes, so a job of any layout can read
// the checkpoint. If several ranks hold copies of a box, one of them writes the box. The writers
// are chosen so as to balance the bytes per rank (run_folder/writers.h). Ranks write to the folder
// `step-100.tmp`, which rank 0 renames when all ranks have finished (save_folder.h,
// step_folders.h). checkpoint.json, index.json and every data file contain the id of the save to
// which they belong.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/checkpoint/optimizer_values.h"
#include "am/parallel/sharded_parameters.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::checkpoint {

// A tensor that is sharded like a parameter, for example an optimizer moment, and is saved in the
// same checkpoint.
struct StateTensor {
  std::string key;  // name in the checkpoint, for example "optim.state.model.norm.weight.exp_avg"
  const parallel::LocalParameter* parameter = nullptr;
  at::Tensor value;  // this rank's box, [parameter->box.shape]
};

// Contents of a checkpoint. All members except the tensors are equal on all ranks.
struct SavedState {
  run_folder::CheckpointInfo info;  // SaveSteps sets info.save_id in its own copy
  std::string plan_toml;
  std::vector<StateTensor> states = {};
  std::optional<SavedOptimizer> optimizer = {};  // written for PyTorch; am-run does not read it
  int64_t metadata_parts = 0;                    // value of checkpoint.metadata_parts in the plan
  // Throws if the checkpoint folder no longer belongs to this job. Rank 0 calls the function before
  // it writes or removes files. A rank that could not write calls it too, because the loss of the
  // folder may be the reason.
  std::function<void()> require_place = [] {};
};

// Writes a checkpoint to `folder`, which is checkpoints/step-N. If a rank fails, removes the
// incomplete checkpoint and throws on every rank, usually Error(kIo). Collective over the world.
void save_checkpoint(const std::filesystem::path& folder, const SavedState& state,
                     parallel::ShardedParameters& model);

}  // namespace am::checkpoint
