// Dtypes in which weights can be computed and exported.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace am::values {

inline constexpr const char* kWeightDtypes = "float32 (fp32), bfloat16 (bf16) or float16 (fp16)";

// Returns the dtype of this name. Throws Error(kUsage), which lists the legal names, for all other
// dtypes, because one that cannot represent weights would silently turn them into zeros.
at::ScalarType parse_weight_dtype(const std::string& name);

}  // namespace am::values
