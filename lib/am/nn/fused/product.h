// A matrix product by the fastest way that there is on the processor.
//
// ATen multiplies float32 matrices with MKL, which keeps its AVX-512 kernels for Intel's
// processors: elsewhere it reaches half of what a core can do. oneDNN's kernels ask what the
// processor can do, whoever made it, and ATen has them as an operator. So on such processors that
// operator multiplies, and at::mm does everywhere else and for all other dtypes. Large products of
// float32 on an Intel processor with a matrix unit are split_product.h's.
//
//   const at::Tensor c_MN = product(a_MK, b_KN);   // b_KN may be a transposed view
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Two-dimensional, of one dtype and device; no graph. The result is contiguous. torch's switch for
// oneDNN (at::globalContext().setUserEnabledMkldnn) holds.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);

// Whether that operator would multiply float32 matrices of the host.
bool multiplies_with_onednn();

// Whether matrices [rows, depth] and [depth, columns] of float32 of the host, or of these sizes in
// another order, as a layer's three products are, would go to the matrix unit.
bool multiplies_split(int64_t rows, int64_t columns, int64_t depth);

}  // namespace am::nn::fused
