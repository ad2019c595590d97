// Checkpoints of a torch::nn module and its optimizer. They can be loaded under any mesh and
// strategy.
//
//   save_module("run/step-100", sharded, optimizer, 100);
//   const int64_t step = load_module("run/step-100", sharded, optimizer);   // 100
//
// The folder has the format of am-run's checkpoints (checkpoint.h), which am-repl and
// torch.distributed.checkpoint read. Parameters and buffers have the names that they have in the
// module. Optimizer states have PyTorch's names, for example "optim.state.head.weight.exp_avg".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/parallel/module/sharded_module.h"

namespace torch::optim {
class Optimizer;
}

namespace am::checkpoint {

// Writes the module's parameters, rank 0's buffers, and the states of the optimizer. `optimizer`
// must be an Adam, AdamW or SGD over the module's parameters. The folder appears when it is
// complete. Throws Error(kUsage) for another optimizer, and the errors of save_checkpoint(). Does
// nothing in a fake world (World::fake), in which only one rank exists. Collective over the mesh's
// world.
void save_module(const std::filesystem::path& folder, parallel::ShardedModule& module,
                 torch::optim::Optimizer& optimizer, int64_t step);

// One box of an optimizer state.
struct ModuleState {
  std::string parameter;
  std::string kind;                              // PyTorch's name, for example "exp_avg"
  const parallel::LocalParameter* of = nullptr;  // the parameter's box
  at::Tensor values;                             // [of->box.shape], a view of the state
  std::optional<int64_t> updates;  // number of updates of the parameter; absent for SGD
};

// Returns this rank's boxes of the optimizer's states. The module's units must be resharded. Throws
// Error(kUsage) for an optimizer that save_module() refuses.
std::vector<ModuleState> module_states(parallel::ShardedModule& module,
                                       const torch::optim::Optimizer& optimizer);

// Sets the module and the optimizer to the values in a folder of save_module(), and returns the
// step. Throws Error(kFormat) with a list of the mismatches if the names or shapes of the module's
// tensors differ from those in the checkpoint. Collective over the mesh's world.
int64_t load_module(const std::filesystem::path& folder, parallel::ShardedModule& module,
                    torch::optim::Optimizer& optimizer);

}  // namespace am::checkpoint
