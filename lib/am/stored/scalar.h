// Reads stored tensors of one element, such as the step count of an optimizer state.
#pragma once

#include <optional>
#include <string_view>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns the value of the named tensor. Returns nullopt if the source does not contain the tensor,
// if the tensor does not have exactly one element, or if its dtype is not float32, float64, int32
// or int64. Throws the errors of TensorSource::read.
std::optional<double> scalar(const TensorSource& source, std::string_view name);

}  // namespace am::stored
