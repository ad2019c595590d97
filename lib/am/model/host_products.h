// Properties of the CPU matmul kernels that affect memory. The kernels use them, and so does the
// prediction of memory.
#pragma once

#include <cstdint>

namespace am::model {

// Number of elements of a transposed matrix that a float32 matmul on the CPU copies at a time, to
// make them contiguous (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Whether float32 matmuls on this CPU use oneDNN. If they do, a transposed left operand is copied
// as above, because oneDNN needs a contiguous one. ATen uses oneDNN on processors with AVX-512 that
// are not Intel's; on Intel's it uses MKL, which has kernels for any memory layout.
bool products_are_onednns();

}  // namespace am::model
