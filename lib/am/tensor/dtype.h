// Converts libtorch's dtypes to and from the names in plans and messages (torch's names), and to
// and from the dtypes of files.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

#include "am/formats/dtype.h"

namespace am::tensor {

// Returns the dtype of a name, for example kFloat for "float32". Throws Error(kPlan) for an unknown
// name.
at::ScalarType parse_dtype(std::string_view name);
// Returns the name of a dtype, for example "float32" for kFloat.
std::string dtype_name(at::ScalarType dtype);
// Returns libtorch's dtype for a dtype of files.
at::ScalarType scalar_type(formats::Dtype dtype);
// Returns the dtype in which files store tensors of this dtype. Throws Error(kFormat) for a dtype
// that files cannot store.
formats::Dtype stored_dtype(at::ScalarType dtype);

}  // namespace am::tensor
