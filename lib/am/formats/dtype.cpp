#include "am/formats/dtype.h"

#include <array>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/safetensors.h"

namespace am::formats {

namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view torch;
  std::string_view safetensors;  // empty: safetensors has no name for the dtype
  int64_t size;
};

// The rows have the order of the enum, because row_of() uses a dtype as an index.
constexpr std::array<DtypeRow, 20> kDtypes = {{
    {Dtype::kFloat32, "float32", "F32", 4},
    {Dtype::kBFloat16, "bfloat16", "BF16", 2},
    {Dtype::kFloat16, "float16", "F16", 2},
    {Dtype::kFloat64, "float64", "F64", 8},
    {Dtype::kInt64, "int64", "I64", 8},
    {Dtype::kInt32, "int32", "I32", 4},
    {Dtype::kInt16, "int16", "I16", 2},
    {Dtype::kInt8, "int8", "I8", 1},
    {Dtype::kUInt8, "uint8", "U8", 1},
    {Dtype::kBool, "bool", "BOOL", 1},
    {Dtype::kFloat8E4M3Fn, "float8_e4m3fn", "F8_E4M3", 1},
    {Dtype::kFloat8E5M2, "float8_e5m2", "F8_E5M2", 1},
    {Dtype::kFloat8E4M3FnUz, "float8_e4m3fnuz", "F8_E4M3FNUZ", 1},
    {Dtype::kFloat8E5M2FnUz, "float8_e5m2fnuz", "F8_E5M2FNUZ", 1},
    {Dtype::kFloat8E8M0FnU, "float8_e8m0fnu", "F8_E8M0", 1},
    {Dtype::kUInt16, "uint16", "U16", 2},
    {Dtype::kUInt32, "uint32", "U32", 4},
    {Dtype::kUInt64, "uint64", "U64", 8},
    {Dtype::kComplex64, "complex64", "C64", 8},
    {Dtype::kComplex128, "complex128", "", 16},
}};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<size_t>(kDtypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

const DtypeRow& row_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)]; }

// Returns the row of the dtype with this name in safetensors; null for an unknown or unsupported
// name.
const DtypeRow* row_of_safetensors(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (!name.empty() && row.safetensors == name) return &row;
  }
  return nullptr;
}

}  // namespace

int64_t dtype_size(Dtype dtype) { return row_of(dtype).size; }

std::string torch_name(Dtype dtype) { return std::string(row_of(dtype).torch); }

std::string safetensors_name(Dtype dtype) {
  const DtypeRow& row = row_of(dtype);
  if (!row.safetensors.empty()) return std::string(row.safetensors);
  throw Error(ErrorKind::kFormat, cat("safetensors cannot store the dtype ", row.torch));
}

Dtype dtype_of_torch(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.torch == name) return row.dtype;
  }
  throw Error(ErrorKind::kFormat, cat("the dtype ", name, " cannot be read"));
}

Dtype dtype_of_safetensors(std::string_view name) {
  if (const DtypeRow* row = row_of_safetensors(name)) return row->dtype;
  throw Error(ErrorKind::kFormat, cat("the safetensors dtype ", name, " cannot be read"));
}

int64_t safetensors_dtype_size(std::string_view name) {
  const DtypeRow* row = row_of_safetensors(name);
  return row == nullptr ? 0 : row->size;
}

}  // namespace am::formats
