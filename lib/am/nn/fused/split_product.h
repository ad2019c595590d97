// float32 matrix products on the matrix unit (AMX) of Intel's processors, which knows bfloat16.
//
// A float32 is the sum of three bfloat16, high + middle + low, that have its 24 bits together. Of
// the nine products of two such sums six are made, and added in float32; the other three are a
// quarter of a product's last place at most. So a product has float32's precision, at a sixth of
// the unit's speed, which is more than twice that of the vector units.
//
// Sums are of 256 products each, which are added in order: a row of the result does not depend on
// how many others there are, nor on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Whether the processor has such a unit, the system lends it, and AM_SPLIT_PRODUCTS is not 0.
bool splits_products();

// Whether a product of these sizes, in whatever order, is faster so.
bool is_worth_splitting(int64_t rows, int64_t columns, int64_t depth);

// a b in rows without gaps, on the threads of ATen's pool; float32 of the host, no graph. Undefined
// where a number is not finite, where all are so large or so small that their parts or products
// could leave float32's range, and of a matrix that has gaps both ways. What is below the
// smallest normal number counts as 0: the unit has no others.
at::Tensor split_product(const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace am::nn::fused
