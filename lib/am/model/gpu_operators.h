// Constants of GPU operators that affect memory. The operators use them, and so does the prediction
// of memory.
#pragma once

#include <cstdint>

namespace am::model {

// Number of logits that the loss on a GPU processes at a time if no kernel can read them in place,
// as with float16 (nn/fused/cross_entropy_rows.cpp). The loss copies each such chunk to float32, so
// that the copy of one chunk exists at a time.
inline constexpr int64_t kLossElements = int64_t{256} << 20;

// Bytes of cuBLAS's workspaces, which are allocated by the first product and never freed: 32 MiB
// for each of two handles, that of the forward thread and that of the backward thread. Measured
// with PyTorch on an H200.
inline constexpr int64_t kProductWorkspace = int64_t{64} << 20;

// Whether ATen's flash attention supports heads with these widths of keys and values. Values that
// are narrower than keys are padded (nn/attention/flash.h).
inline bool flash_takes_widths(int64_t keys, int64_t values) {
  return keys % 8 == 0 && keys <= 256 && values <= keys;
}

}  // namespace am::model
