// Reads the parameter groups of Megatron's optimizer from the dict that a checkpoint contains as
// common.pt or common_state. This dict does not contain the names of a group's parameters. The
// names follow from the rules by which Megatron forms groups:
//
//   wd_mult = 0                vectors (norms and biases), which have no weight decay
//   is_expert_parallel         the experts, in a job with expert parallelism
#pragma once

#include <string_view>
#include <vector>

#include "am/frameworks/optimizer_settings.h"

namespace am::frameworks {

// Returns whether the parameter with this hub name is a part of an expert.
bool is_of_experts(std::string_view parameter);
// Returns whether the parameter has one dim or is a bias. By default, Megatron applies no weight
// decay to these parameters. `parameter`: the hub name.
bool is_vector(std::string_view parameter, const Shape& shape);

// Returns the parameter groups of a checkpoint whose tensors have hub names (mapped_source.h). The
// setting max_lr is returned as "initial_lr". Omits a parameter that could belong to several groups
// with different settings. Empty if the dict is missing, contains no optimizer or cannot be parsed.
// Throws Error(kFormat) for an invalid .metadata, and if the pickle of the dict refers to functions
// that could run other code.
std::vector<SettingsGroup> megatron_groups(const stored::TensorSource& source);

}  // namespace am::frameworks
