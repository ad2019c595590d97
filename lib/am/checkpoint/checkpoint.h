// am-run's own checkpoints: a folder per step that appears whole or not at all.
//
//   checkpoints/step-100/
//     checkpoint.json        format, version, step, world and mesh
//     plan.toml config.json  what made it: enough to open it again anywhere
//     rank-00000.safetensors one file a rank: its boxes of parameters and optimizer moments
//
// Every box carries its offset and the global shape, so any layout can read what any other wrote.
// Replicas are written once. Ranks write into `step-100.tmp`, which rank 0 renames when all have
// finished.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/mesh/layout.h"
#include "am/parallel/parallel_model.h"

namespace am::checkpoint {

inline constexpr int kCheckpointVersion = 1;

struct CheckpointInfo {
  int64_t step = 0;  // finished optimizer steps
  int64_t world_size = 1;
  mesh::MeshSizes mesh;
  std::string model_type;
  int64_t skipped_steps = 0;  // of `step`: those without an update
  // Of float16 training: optim::GradScaler's state.
  struct LossScale {
    double scale = 0.0;
    int64_t growth_tracker = 0;
  };
  std::optional<LossScale> loss_scale;
};

// A tensor laid out like a parameter and saved with it: an optimizer moment.
struct StateTensor {
  std::string key;  // "optim.state.model.norm.weight.exp_avg"
  const parallel::OwnedParameter* parameter = nullptr;
  at::Tensor value;  // [parameter->box.shape]
};

// Collective over the mesh's world. `folder` is checkpoints/step-N. Throws Error(kIo) on every rank
// when one could not write; then nothing is left but the old checkpoints.
void save_checkpoint(const std::filesystem::path& folder, const CheckpointInfo& info,
                     const std::string& plan_toml, parallel::ParallelModel& model,
                     const std::vector<StateTensor>& state);

bool is_checkpoint(const std::filesystem::path& folder);
// Throws Error(kFormat) that names the file when it is not a checkpoint of a version that is known.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

}  // namespace am::checkpoint
