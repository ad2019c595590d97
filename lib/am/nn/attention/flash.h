// attend() and attend_backward() (block_kernel.h) by ATen's fused kernels for GPUs: flash attention
// (Dao, 2023) or cuDNN (flash_kernels.h).
//
// No tensor with t * s elements (t local queries, s local keys) is allocated. The kernels receive
// only the queries that see a local key, and only the keys that a local query sees. Flash attention
// aligns the causal diagonal at the last query and the last key. If the last query is d positions
// after the last key, the window passed to the kernels is shorter by d. Queries that see all keys
// run without a mask. Packed documents are passed as sequences of different lengths. Values
// narrower than keys are padded with zeros, and the padding is cut from the output.
#pragma once

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Whether the kernels support these arguments: bfloat16 or float16 on a GPU (narrow_on_gpu() in
// fused/device.h), no soft-cap, no ALiBi, K a multiple of 8 up to 256, and V at most K. Packed
// documents also require document_starts. K and V are the widths of keys and values.
bool flash_takes(const Qkv& heads, const AttentionParams& params);

// attend() and attend_backward() by flash kernels, without sinks. Backward reads
// `gradient.out_BtHV`, not `along_BHt`.
void flash_attend(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                  const Attended& attended);
void flash_attend_backward(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                           const AttendedGradient& gradient, const HeadGradients& sums);

}  // namespace am::nn
