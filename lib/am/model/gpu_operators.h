// Properties of GPU operators that affect memory. The operators implement them, and the memory
// model counts by them.
#pragma once

#include <cstdint>

namespace am::model {

// Logits that the loss processes per chunk where no kernel reads them in place (float16;
// nn/fused/cross_entropy_rows.cpp); one float32 copy of a chunk exists at a time.
inline constexpr int64_t kLossElements = int64_t{256} << 20;

// Memory that cuBLAS keeps from the first product on: PyTorch gives it 32 MiB on Hopper for each
// handle, one of the forward thread and one of the backward thread. Measured on an H200.
inline constexpr int64_t kProductWorkspace = int64_t{64} << 20;

// Whether ATen's flash attention supports these head dims of keys and values. Narrower values are
// padded (nn/attention/flash.h).
inline bool flash_takes_widths(int64_t keys, int64_t values) {
  return keys % 8 == 0 && keys <= 256 && values <= keys;
}

}  // namespace am::model
