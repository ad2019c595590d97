// Facts about operators on a GPU that show in memory; the operators keep to them, and the memory
// model counts by them.
#pragma once

#include <cstdint>

namespace am::model {

// Logits that the loss reads at a time (nn/fused/cross_entropy_rows.cpp), of which it has one copy
// in float32.
inline constexpr int64_t kLossElements = int64_t{256} << 20;

// Whether ATen's flash attention takes heads of keys and values of these widths; narrower values
// are padded (nn/attention/flash.h).
inline bool flash_takes_widths(int64_t keys, int64_t values) {
  return keys % 8 == 0 && keys <= 256 && values <= keys;
}

}  // namespace am::model
