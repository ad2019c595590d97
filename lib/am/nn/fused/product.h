// Matrix product by the fastest implementation for the processor.
//
// ATen multiplies float32 matrices with MKL, which uses AVX-512 only on Intel processors: elsewhere
// it reaches half of a core's peak. oneDNN chooses its kernels by instruction set, whatever the
// vendor, and ATen exposes them as an operator. On non-Intel processors float32 products use that
// operator. Large float32 products on an Intel processor with a matrix unit use split_product.h.
// All other products use at::mm.
//
//   const at::Tensor c_MN = product(a_MK, b_KN);   // b_KN may be a transposed view
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Returns the product a b, contiguous. The operands are two-dimensional, of one dtype and device.
// Builds no autograd graph. Respects torch's oneDNN switch
// (at::globalContext().setUserEnabledMkldnn).
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);

// Whether float32 matrices on the host are multiplied with oneDNN.
bool multiplies_with_onednn();

// Whether float32 host matrices [rows, depth] and [depth, columns] are multiplied on the
// processor's matrix unit (AMX), with each value split into bfloat16 parts. The answer is the same
// for any permutation of the sizes, and thus for all three products of a linear layer.
bool multiplies_split(int64_t rows, int64_t columns, int64_t depth);

}  // namespace am::nn::fused
