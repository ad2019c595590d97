// Matrix product by the fastest implementation for the processor.
//
// ATen multiplies float32 matrices with MKL. MKL uses AVX-512 only on Intel processors; on other
// processors it reaches half of a core's peak. oneDNN chooses its kernels by instruction set,
// whatever the vendor, and ATen exposes oneDNN's product as an operator. float32 products use this
// operator on non-Intel processors with AVX-512. Large float32 products use split_product.h on
// Intel processors with a matrix unit (AMX). All other products use at::mm.
//
//   const at::Tensor c_MN = product(a_MK, b_KN);   // b_KN may be a transposed view
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::nn::fused {

// Returns the product of a_MK [M, K] and b_KN [K, N] as a contiguous tensor [M, N]. The operands
// must have one dtype and be on one device. Builds no autograd graph. Respects torch's oneDNN
// switch (at::globalContext().setUserEnabledMkldnn).
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);

// Whether product() multiplies float32 matrices on the host with oneDNN, unless multiplies_split()
// is true for their sizes.
bool multiplies_with_onednn();

// Whether float32 host matrices [rows, depth] and [depth, columns] are multiplied on the
// processor's matrix unit (AMX), with each value split into bfloat16 parts. The order of the three
// sizes does not matter, so one call answers for all three products of a linear layer: the output
// and the gradients of input and weight.
bool multiplies_split(int64_t rows, int64_t columns, int64_t depth);

}  // namespace am::nn::fused
