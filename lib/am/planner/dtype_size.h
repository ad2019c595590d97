// Bytes of one element of a dtype, by torch's name.
#pragma once

#include <cstdint>
#include <string_view>

namespace am::planner {

// "float32" 4, "bfloat16" and "float16" 2. Unknown names throw Error(kInternal): the plan's loader
// has refused them.
int64_t dtype_size(std::string_view dtype);

}  // namespace am::planner
