// Properties of the CPU matmul kernels that affect memory, used by the kernels and by the
// prediction of memory.
#pragma once

#include <cstdint>

namespace am::model {

// Number of elements of a transposed matrix that a float32 matmul on the CPU copies to contiguous
// memory at a time (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Whether automesh's float32 matmuls on this CPU use oneDNN instead of at::mm, which calls MKL.
// True on processors with AVX-512 from other vendors than Intel, where MKL does not use AVX-512.
// oneDNN requires a contiguous left operand, so a transposed left operand is copied first. MKL
// needs no copy.
bool products_are_onednns();

}  // namespace am::model
