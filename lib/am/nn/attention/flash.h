// `attend` and its gradients (block_kernel.h) by ATen's flash kernels on GPUs (Dao, 2023).
//
// Nothing of size [t, s] is made. Of queries and keys at hand only those that see each other are
// given to the kernels, whose mask follows the diagonal that ends at the last query and the last
// key: wholly visible keys need none, others windows that are moved by how much later the queries
// end. Packed documents are sequences of their own lengths. Values narrower than keys are padded
// with zeros, and cut again.
#pragma once

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

// Whether the kernels compute it: narrow_on_gpu (fused/device.h), no soft-cap, K a multiple of 8 of
// at most 256, V at most K, and documents whose borders the host knows.
bool flash_takes(const Heads& heads, const Look& look);

// Both without sinks. `gradient.out_BtHV` is read, `along_BHt` is not.
void flash_attend(const Heads& heads, const Look& look, const Firsts& firsts,
                  const Attended& attended);
void flash_attend_backward(const Heads& heads, const Look& look, const Firsts& firsts,
                           const AttendedGradient& gradient, const HeadGradients& sums);

}  // namespace am::nn
