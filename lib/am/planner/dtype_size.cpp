#include "am/planner/dtype_size.h"

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::planner {

int64_t dtype_size(std::string_view dtype) {
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  throw Error(ErrorKind::kInternal, cat("dtype \"", dtype, "\" has no known size"));
}

}  // namespace am::planner
