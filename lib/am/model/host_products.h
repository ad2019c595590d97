// Properties of the CPU matmul kernels that affect memory, used by the kernels and by the
// prediction of memory.
#pragma once

#include <cstdint>

namespace am::model {

// Number of elements of a transposed matrix that a float32 matmul on the CPU copies to contiguous
// memory at a time (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Whether float32 matmuls on this CPU use oneDNN, which requires a contiguous left operand, so that
// a transposed one is copied first. ATen uses oneDNN on processors with AVX-512 that are not
// Intel's. On Intel's processors ATen uses MKL, which has kernels for any memory layout.
bool products_are_onednns();

}  // namespace am::model
