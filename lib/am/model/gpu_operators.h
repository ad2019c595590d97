// Constants of GPU operators that affect memory, used by the operators and by the prediction of
// memory.
#pragma once

#include <cstdint>

namespace am::model {

// Number of logits that the loss on a GPU processes at a time if no GPU kernel can read the logits
// in place, for example because they are float16 (nn/fused/cross_entropy_rows.cpp). The loss copies
// one chunk of this size at a time to float32.
inline constexpr int64_t kLossElements = int64_t{256} << 20;

// Bytes of cuBLAS's workspaces: 32 MiB for the handle of the forward thread and 32 MiB for that of
// the backward thread. The first matmul of a thread allocates the thread's workspace, which is
// never freed. Measured with PyTorch on an H200.
inline constexpr int64_t kProductWorkspace = int64_t{64} << 20;

// Whether ATen's flash attention supports heads with these widths of keys and values. Values that
// are narrower than keys are padded (nn/attention/flash.h).
inline bool flash_takes_widths(int64_t keys, int64_t values) {
  return keys % 8 == 0 && keys <= 256 && values <= keys;
}

}  // namespace am::model
