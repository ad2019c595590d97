// What the host's kernels do that shows in memory: facts that the kernels keep to and the memory
// model counts by.
#pragma once

#include <cstdint>

namespace am::model {

// Elements of a transposed matrix that a float32 product on the host copies at a time
// (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

}  // namespace am::model
