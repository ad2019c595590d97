// Reads the parameter groups of Megatron's optimizer from common.pt. The file does not contain the
// names of a group's parameters; they follow from the rules by which Megatron forms groups:
//
//   wd_mult = 0                vectors (norms and biases), which have no weight decay
//   is_expert_parallel         the experts, in a job with expert parallelism
#pragma once

#include <string_view>
#include <vector>

#include "am/frameworks/optimizer_settings.h"

namespace am::frameworks {

// Whether a parameter with this hub name belongs to a group of experts, and whether it is a vector
// without weight decay.
bool is_of_experts(std::string_view parameter);
bool is_vector(std::string_view parameter, const Shape& shape);

// Returns the parameter groups of a checkpoint whose tensors have hub names (mapped_source.h). The
// setting max_lr is returned as "initial_lr". Omits a parameter that could belong to several groups
// with different settings. Empty if common.pt has no optimizer or cannot be parsed. Throws
// Error(kFormat) for an invalid .metadata, and for a common.pt that names functions that may run
// code.
std::vector<SettingsGroup> megatron_groups(const stored::TensorSource& source);

}  // namespace am::frameworks
