#include "am/tensor/dtype.h"

#include <array>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::tensor {

namespace {

using formats::Dtype;

struct DtypePair {
  Dtype stored;
  at::ScalarType dtype;
};

// All dtypes of files, in the order of formats::Dtype: scalar_type() uses a formats::Dtype as an
// index into this array.
constexpr std::array<DtypePair, 20> kDtypes = {{
    {Dtype::kFloat32, at::kFloat},
    {Dtype::kBFloat16, at::kBFloat16},
    {Dtype::kFloat16, at::kHalf},
    {Dtype::kFloat64, at::kDouble},
    {Dtype::kInt64, at::kLong},
    {Dtype::kInt32, at::kInt},
    {Dtype::kInt16, at::kShort},
    {Dtype::kInt8, at::kChar},
    {Dtype::kUInt8, at::kByte},
    {Dtype::kBool, at::kBool},
    {Dtype::kFloat8E4M3Fn, at::kFloat8_e4m3fn},
    {Dtype::kFloat8E5M2, at::kFloat8_e5m2},
    {Dtype::kFloat8E4M3FnUz, at::kFloat8_e4m3fnuz},
    {Dtype::kFloat8E5M2FnUz, at::kFloat8_e5m2fnuz},
    {Dtype::kFloat8E8M0FnU, at::kFloat8_e8m0fnu},
    {Dtype::kUInt16, at::kUInt16},
    {Dtype::kUInt32, at::kUInt32},
    {Dtype::kUInt64, at::kUInt64},
    {Dtype::kComplex64, at::kComplexFloat},
    {Dtype::kComplex128, at::kComplexDouble},
}};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<size_t>(kDtypes[i].stored) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

at::ScalarType parse_dtype(std::string_view name) {
  for (const DtypePair& pair : kDtypes) {
    if (formats::torch_name(pair.stored) == name) return pair.dtype;
  }
  throw Error(ErrorKind::kPlan, cat("unknown dtype \"", name, "\""),
              "use float32, bfloat16 or float16");
}

std::string dtype_name(at::ScalarType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.dtype == dtype) return formats::torch_name(pair.stored);
  }
  return c10::toString(dtype);
}

at::ScalarType scalar_type(formats::Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].dtype;
}

formats::Dtype stored_dtype(at::ScalarType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.dtype == dtype) return pair.stored;
  }
  throw Error(ErrorKind::kFormat, cat("files cannot store the dtype ", c10::toString(dtype)));
}

}  // namespace am::tensor
