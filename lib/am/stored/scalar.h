// Reads stored tensors of one element, such as the step count of an optimizer state.
#pragma once

#include <optional>
#include <string_view>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns the value of a tensor of one element with a dtype float32, float64, int32 or int64.
// Returns nullopt if there is no such tensor. Throws the errors of TensorSource::read.
std::optional<double> scalar(const TensorSource& source, std::string_view name);

}  // namespace am::stored
