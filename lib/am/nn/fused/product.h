// A matrix product by the faster of the two engines that ATen has for the processor.
//
// ATen multiplies float32 matrices with MKL, which keeps its AVX-512 kernels for Intel's
// processors: elsewhere it reaches half of what a core can do. oneDNN's kernels ask what the
// processor can do, whoever made it, and ATen has them as an operator. So on such processors that
// operator multiplies, and at::mm does everywhere else and for all other dtypes.
//
//   const at::Tensor c_MN = product(a_MK, b_KN);   // b_KN may be a transposed view
#pragma once

#include <ATen/core/Tensor.h>

namespace am::nn::fused {

// Two-dimensional, of one dtype and device; no graph. The result is contiguous. torch's switch for
// oneDNN (at::globalContext().setUserEnabledMkldnn) holds.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);

// Whether that operator would multiply float32 matrices of the host.
bool multiplies_with_onednn();

}  // namespace am::nn::fused
