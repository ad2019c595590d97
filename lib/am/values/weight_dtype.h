// Dtypes in which models compute and weights are exported.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace am::values {

inline constexpr const char* kWeightDtypes = "float32 (fp32), bfloat16 (bf16) or float16 (fp16)";

// Returns the dtype of this name. Throws Error(kUsage), which lists the valid names, for any other
// name; a conversion of weights to an integer dtype, for example, would silently produce zeros.
at::ScalarType parse_weight_dtype(const std::string& name);

}  // namespace am::values
