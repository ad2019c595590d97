// float32 matrix products on the matrix unit (AMX) of Intel processors, which multiplies bfloat16.
//
// A float32 is the sum of three bfloat16, high + middle + low, which together have its 24 bits. A
// product of two such sums has nine terms. Six are computed and added in float32; the other three
// terms together are at most a quarter of the product's last place. The result has float32's
// precision at a sixth of the unit's speed, which is more than twice the speed of the vector units.
//
// The products of every 256 elements of the depth are summed, and these sums are added in order.
// Therefore a row of the result does not depend on the number of other rows or of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Whether the processor has an AMX unit, the system permits its use, and AM_SPLIT_PRODUCTS is not
// 0.
bool splits_products();

// Whether a product of these sizes, in any order, is faster on the matrix unit.
bool is_worth_splitting(int64_t rows, int64_t columns, int64_t depth);

// Returns the product a b, contiguous, computed on ATen's thread pool, for float32 on the host.
// Builds no autograd graph. Returns an undefined tensor if an element is not finite, if the largest
// elements are so large or so small that parts or products could leave float32's range, or if a
// matrix is strided in both dims. Subnormal numbers count as 0, because the unit does not support
// them.
at::Tensor split_product(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace am::nn::fused
