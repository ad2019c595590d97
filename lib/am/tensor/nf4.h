// Quantization to NF4, the 4-bit type of QLoRA (Dettmers et al., 2023, appendix E). A value is
// stored as the 4-bit code of one of 16 numbers, which are quantiles of the normal distribution,
// scaled to [-1, 1]. The value is this number times the largest magnitude of a block of
// neighbouring values. Codes and byte order equal those of bitsandbytes.
//
//   quantize_nf4(weight.view({-1}), codes, absmax);
//   dequantize_nf4(codes.view({1, -1}), absmax.view({1, -1}), weight.view({1, -1}));
//   // Quantizing the result again yields the same codes and magnitudes.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Quantizes `values`, contiguous [n] of any floating-point dtype. Writes two codes to each byte of
// `codes` [n / 2] (uint8), the first code to the high bits, and the largest magnitude of each block
// to `absmax` [blocks] (float32). n / blocks, the block length, must be an even integer. If a value
// is not finite, the absmax of its block is not finite.
void quantize_nf4(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& absmax);

// Writes the values to `out` [rows, n] of any floating-point dtype. Multiplies the numbers of the
// codes [rows, n / 2] by the absmax [rows, blocks] of their blocks in float32, and rounds the
// products to the dtype of `out`. Allocates layout::nf4_scratch(rows * n) bytes temporarily.
void dequantize_nf4(const at::Tensor& codes, const at::Tensor& absmax, const at::Tensor& out);

}  // namespace am::tensor
