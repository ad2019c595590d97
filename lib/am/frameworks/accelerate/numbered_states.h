// Optimizer states that transformers' Trainer (optimizer.pt) and accelerate (optimizer.bin) save
// beside the weights of a model that is not under FSDP: torch.optim's state_dict, in which
// parameters have numbers instead of names.
//
//   optimizer.pt    {"state": {0: {"exp_avg": ..}}, "param_groups": [{"params": [0, 1, ..]}]}
//
// The numbers follow the order of the parameters in transformers' modules. If there are two groups,
// the first group contains the parameters with weight decay (matrices), and the second group those
// without weight decay (norms and biases).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns the path of optimizer.pt or optimizer.bin in a folder of weights; nullopt if neither
// exists.
std::optional<std::filesystem::path> numbered_states_file(const std::filesystem::path& folder);

// Returns one source with the weights, the optimizer states in `file`, and the step in
// trainer_state.json. The names of states contain parameter names if the order of the model's
// parameters is known, each group has the expected number of parameters, and the shapes match.
// Otherwise, the names of states contain the parameter numbers, and note() returns the reason. If
// `file` cannot be read, the source has no states; note() and damage() return the error.
std::unique_ptr<stored::TensorSource> with_numbered_states(
    std::unique_ptr<stored::TensorSource> weights, const std::filesystem::path& file);

}  // namespace am::frameworks
