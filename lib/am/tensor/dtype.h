// Dtype names: torch's in plans and messages, safetensors' on disk.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace am::tensor {

// "float32" -> kFloat; legal names were checked when the plan was read. Throws Error(kPlan)
// otherwise.
at::ScalarType parse_dtype(std::string_view name);
// The same of a file's, any that libtorch has: Error(kFormat) otherwise.
at::ScalarType from_torch(std::string_view name);
// kFloat -> "float32"
std::string dtype_name(at::ScalarType dtype);
// kFloat -> "F32". Throws Error(kFormat) for a dtype that safetensors has no name for.
std::string safetensors_name(at::ScalarType dtype);
// "F32" -> kFloat. Throws Error(kFormat) for a dtype that libtorch has no type for.
at::ScalarType from_safetensors(std::string_view name);

}  // namespace am::tensor
