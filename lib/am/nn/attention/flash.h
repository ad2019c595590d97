// attend() and attend_backward() (block_kernel.h) by ATen's flash kernels for GPUs (Dao, 2023).
//
// Allocates nothing of size [t, s]. The kernels receive only the queries that see a local key, and
// only the keys that a local query sees. The kernels align the causal diagonal at the last query
// and the last key. If these are at different positions, the window is shifted by the distance;
// queries that see all keys run without a mask. Packed documents are passed as sequences of
// different lengths. Values narrower than keys are padded with zeros, and the padding is cut from
// the output.
#pragma once

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Whether the kernels support these arguments: bfloat16 or float16 on a GPU (narrow_on_gpu() in
// fused/device.h), no soft-cap, no ALiBi, K a multiple of 8 up to 256, V at most K and, if there
// are packed documents, their starts known on the host.
bool flash_takes(const Qkv& heads, const AttentionParams& params);

// attend() and attend_backward() by flash kernels, without sinks. Backward reads
// `gradient.out_BtHV`, not `along_BHt`.
void flash_attend(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const Attended& attended);
void flash_attend_backward(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                           const AttendedGradient& gradient, const HeadGradients& sums);

}  // namespace am::nn
