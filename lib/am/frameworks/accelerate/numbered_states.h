// Optimizer states that transformers' Trainer (optimizer.pt) and accelerate (optimizer.bin) save
// beside the weights of a model that is not under FSDP: torch.optim's state_dict, in which
// parameters have numbers instead of names.
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
// trainer_state.json. States get the names of their parameters if the order of the model's
// parameters is known, each group has as many parameters as expected, and the shapes match.
// Otherwise, states keep the parameter numbers in their names. If the file cannot be read, the
// source has no states. In both of these cases, note() returns the reason.
std::unique_ptr<stored::TensorSource> with_numbered_states(
    std::unique_ptr<stored::TensorSource> weights, const std::filesystem::path& file);

}  // namespace am::frameworks
