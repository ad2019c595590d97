// The dtypes that weights are computed and exported in.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace am::values {

inline constexpr const char* kWeightDtypes = "float32 (fp32), bfloat16 (bf16) or float16 (fp16)";

// Throws Error(kUsage) that lists the legal ones: a dtype that cannot hold weights would turn them
// into zeros without a word.
at::ScalarType parse_weight_dtype(const std::string& name);

}  // namespace am::values
