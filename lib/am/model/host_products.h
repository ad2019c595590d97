// What the host's kernels do that shows in memory: facts that the kernels keep to and the memory
// model counts by.
#pragma once

#include <cstdint>

namespace am::model {

// Elements of a transposed matrix that a float32 product on the host copies at a time
// (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Whether they copy it at all: where this processor's float32 products are oneDNN's, which read a
// dense left side (AVX-512, and not Intel's, for which ATen's MKL has kernels that read any).
bool products_are_onednns();

}  // namespace am::model
