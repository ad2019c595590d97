#include "am/tensor/dtype.h"

#include <array>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::tensor {

namespace {

struct DtypeNames {
  at::ScalarType dtype;
  std::string_view torch;
  std::string_view safetensors;
};

// Those that safetensors has no name for have an empty one.
constexpr std::array<DtypeNames, 20> kDtypes = {{
    {at::kFloat, "float32", "F32"},
    {at::kBFloat16, "bfloat16", "BF16"},
    {at::kHalf, "float16", "F16"},
    {at::kDouble, "float64", "F64"},
    {at::kLong, "int64", "I64"},
    {at::kInt, "int32", "I32"},
    {at::kShort, "int16", "I16"},
    {at::kChar, "int8", "I8"},
    {at::kByte, "uint8", "U8"},
    {at::kBool, "bool", "BOOL"},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", "F8_E4M3"},
    {at::kFloat8_e5m2, "float8_e5m2", "F8_E5M2"},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", "F8_E4M3FNUZ"},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", "F8_E5M2FNUZ"},
    {at::kFloat8_e8m0fnu, "float8_e8m0fnu", "F8_E8M0"},
    {at::kUInt16, "uint16", "U16"},
    {at::kUInt32, "uint32", "U32"},
    {at::kUInt64, "uint64", "U64"},
    {at::kComplexFloat, "complex64", "C64"},
    {at::kComplexDouble, "complex128", ""},
}};

}  // namespace

at::ScalarType parse_dtype(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (known.torch == name) return known.dtype;
  }
  throw Error(ErrorKind::kPlan, cat("unknown dtype \"", name, "\""),
              "use float32, bfloat16 or float16");
}

at::ScalarType from_torch(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (known.torch == name) return known.dtype;
  }
  throw Error(ErrorKind::kFormat, cat("dtype ", name, " is not readable here"));
}

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return std::string(known.torch);
  }
  return c10::toString(dtype);
}

std::string safetensors_name(at::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype && !known.safetensors.empty()) return std::string(known.safetensors);
  }
  throw Error(ErrorKind::kFormat, cat("safetensors has no name for ", c10::toString(dtype)));
}

at::ScalarType from_safetensors(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (!name.empty() && known.safetensors == name) return known.dtype;
  }
  throw Error(ErrorKind::kFormat, cat("safetensors dtype ", name, " is not readable here"));
}

}  // namespace am::tensor
