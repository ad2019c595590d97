// Dtypes of libtorch: by torch's names, which plans and messages have, and as those of files.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

#include "am/formats/dtype.h"

namespace am::tensor {

// "float32" -> kFloat; legal names were checked when the plan was read. Throws Error(kPlan)
// otherwise.
at::ScalarType parse_dtype(std::string_view name);
// kFloat -> "float32"
std::string dtype_name(at::ScalarType dtype);
at::ScalarType scalar_type(formats::Dtype dtype);
// Throws Error(kFormat) for one that files have no dtype for.
formats::Dtype stored_dtype(at::ScalarType dtype);

}  // namespace am::tensor
