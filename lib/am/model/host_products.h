// Properties of the CPU matmul kernels that affect memory. The kernels implement them, and the
// memory model counts by them.
#pragma once

#include <cstdint>

namespace am::model {

// Elements of a transposed matrix that a float32 matmul on the CPU copies at a time
// (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Whether the CPU matmul makes that copy: true if float32 matmuls use oneDNN, which requires a
// dense left operand. ATen uses oneDNN with AVX-512 on processors not made by Intel; on Intel's it
// uses MKL, which has kernels for any layout.
bool products_are_onednns();

}  // namespace am::model
