// Values of float32 or bfloat16 as vectors of doubles: what statistics and comparisons run over.
//
//   for (i ...) {
//     const TwoWide x = widened(nn::fused::load(values + i, nn::fused::All{}));   // 16 of them
//   }
#pragma once

#include <cstdint>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/lanes.h"

namespace am::values {

using nn::fused::Doubles;
using nn::fused::Floats;

struct TwoWide {
  Doubles low, high;
};
AM_INLINE TwoWide widened(const Floats& x) {
  return {__builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7), Doubles),
          __builtin_convertvector(__builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15),
                                  Doubles)};
}

// Calls `step` with eight pairs at a time; how many pairs that were.
template <typename Scalar, typename Step>
AM_INLINE int64_t for_each_wide_pair(const Scalar* x, const Scalar* y, int64_t count,
                                     const Step& step) {
  int64_t i = 0;
  for (; i + nn::fused::kLanes<float> <= count; i += nn::fused::kLanes<float>) {
    const TwoWide a = widened(nn::fused::load(x + i, nn::fused::All{}));
    const TwoWide b = widened(nn::fused::load(y + i, nn::fused::All{}));
    step(a.low, b.low);
    step(a.high, b.high);
  }
  return i;
}

AM_INLINE Doubles magnitude(const Doubles& x) { return x < 0.0 ? -x : x; }

}  // namespace am::values
