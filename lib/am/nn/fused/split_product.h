// float32 matrix products on the matrix unit (AMX) of Intel processors, which multiplies bfloat16.
//
// A float32 is the sum of three bfloat16 parts, high + middle + low, which together have its 24
// bits of significand. The product of two float32 thus has nine terms. Six terms are computed and
// added in float32. The other three terms (middle * low, low * middle, low * low) together are less
// than half a unit in the product's last place. The result has float32's precision at a sixth of
// the matrix unit's speed, which is more than twice the speed of the vector units.
//
// The depth is the inner dim K of a_MK b_KN. The products of every 256 elements of the depth are
// summed, and these sums are added in order. Therefore a row of the result does not depend on the
// number of other rows or of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Whether the processor has an AMX unit, Linux permits its use, and the environment variable
// AM_SPLIT_PRODUCTS is not 0.
bool splits_products();

// Whether a product of these sizes is faster on the matrix unit than on the vector units, with the
// current number of ATen's threads. The result does not depend on the order of the sizes. Does not
// check splits_products().
bool is_worth_splitting(int64_t rows, int64_t columns, int64_t depth);

// Returns the product of a_MK [M, K] and b_KN [K, N], which must be float32 on the host, as a
// contiguous tensor [M, N]. Runs on ATen's threads; requires splits_products(). Builds no autograd
// graph. Returns an undefined tensor if an element is not finite, if the largest elements are so
// large or so small that parts or products could leave float32's range, or if a matrix is strided
// in both dims. Subnormal numbers count as 0, because the unit does not support them.
at::Tensor split_product(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace am::nn::fused
