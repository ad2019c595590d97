// Dtypes in which models compute and weights are exported.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace am::values {

inline constexpr const char* kWeightDtypes = "float32 (fp32), bfloat16 (bf16) or float16 (fp16)";

// Returns the dtype with this name. Throws Error(kUsage) for a name that is not in kWeightDtypes,
// for example for an integer dtype, in which most weights would become 0.
at::ScalarType parse_weight_dtype(const std::string& name);

}  // namespace am::values
