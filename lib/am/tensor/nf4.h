// Quantization to NF4, the 4-bit type of QLoRA (Dettmers et al., 2023, appendix E): a value is one
// of 16 quantiles of the normal distribution, times the largest magnitude of its block of
// neighbouring values. Codes and byte order equal those of bitsandbytes.
//
//   quantize_nf4(weight.view({-1}), codes, absmax);
//   dequantize_nf4(codes.view({1, -1}), absmax.view({1, -1}), weight.view({1, -1}));
//   // Quantizing the result again yields the same codes and magnitudes.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::tensor {

// Quantizes `values`, contiguous [n] of any floating-point dtype. Writes two codes to each byte of
// `codes` [n / 2] (uint8), the first one to the high bits, and the largest magnitude of each block
// to `absmax` [blocks] (float32). `blocks` must divide n. A block with a value that is not finite
// gets an absmax that is not finite.
void quantize_nf4(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& absmax);

// Writes the values to `out` [rows, n] of any floating-point dtype: the products of codes
// [rows, n / 2] and absmax [rows, blocks] in float32, rounded to the dtype. Allocates
// layout::nf4_scratch(rows * n) bytes temporarily.
void dequantize_nf4(const at::Tensor& codes, const at::Tensor& absmax, const at::Tensor& out);

}  // namespace am::tensor
