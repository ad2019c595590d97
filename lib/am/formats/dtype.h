// Dtypes of tensors in files, with their names in torch and in safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace am::formats {

enum class Dtype : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat64,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool,
  kFloat8E4M3Fn,
  kFloat8E5M2,
  kFloat8E4M3FnUz,
  kFloat8E5M2FnUz,
  kFloat8E8M0FnU,
  kUInt16,
  kUInt32,
  kUInt64,
  kComplex64,
  kComplex128,
};

// Returns the number of bytes per element.
int64_t dtype_size(Dtype dtype);
// Returns the dtype's name in torch, for example "float32".
std::string torch_name(Dtype dtype);
// Returns the dtype's name in safetensors, for example "F32". Throws Error(kFormat) for a dtype
// without a name in safetensors.
std::string safetensors_name(Dtype dtype);
// Return the dtype with this name in torch or in safetensors. Throw Error(kFormat) for unknown or
// unsupported names.
Dtype dtype_of_torch(std::string_view name);
Dtype dtype_of_safetensors(std::string_view name);

}  // namespace am::formats
