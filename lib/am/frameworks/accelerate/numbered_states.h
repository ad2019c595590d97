// Optimizer states beside weights with the names of the hub, as transformers' Trainer
// (optimizer.pt) and accelerate (optimizer.bin) save them for a model that is not under FSDP:
// torch.optim's own state, which numbers the parameters.
//
//   optimizer.pt    {"state": {0: {"exp_avg": ..}}, "param_groups": [{"params": [0, 1, ..]}]}
//
// The numbers follow the order of the parameters in transformers' modules. With two groups, the
// first has the parameters with weight decay (matrices), and the second those without (norms and
// biases).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns the file with the optimizer states in a folder of weights; nothing if there is none.
std::optional<std::filesystem::path> numbered_states_file(const std::filesystem::path& folder);

// Opens weights and the optimizer states in `file` beside them as one source, with the step of
// trainer_state.json. States have the names of their parameters if the order of the model's
// parameters is known, and if number and shapes fit; otherwise they keep their numbers. A file that
// cannot be read is left out. In both cases note() gives the reason.
std::unique_ptr<stored::TensorSource> with_numbered_states(
    std::unique_ptr<stored::TensorSource> weights, const std::filesystem::path& file);

}  // namespace am::frameworks
