// The transpose of 16 x 16 numbers in 16 vectors; inlined into kernels as lanes.h is.
#pragma once

#include <utility>

#include "am/nn/fused/lanes.h"

namespace am::nn::fused {

inline constexpr int kBlock = kLanes<float>;
static_assert(kBlock == 16);

using BlockLanes = std::make_integer_sequence<int, kBlock>;

// Of two rows, one above the other by kSide, the upper and the lower row after the exchange below.
template <int kSide, int... kLane>
AM_INLINE Floats upper_row(const Floats& above, const Floats& below,
                           std::integer_sequence<int, kLane...> /*lanes*/) {
  return __builtin_shufflevector(above, below,
                                 ((kLane & kSide) != 0 ? kBlock + kLane - kSide : kLane)...);
}
template <int kSide, int... kLane>
AM_INLINE Floats lower_row(const Floats& above, const Floats& below,
                           std::integer_sequence<int, kLane...> /*lanes*/) {
  return __builtin_shufflevector(above, below,
                                 ((kLane & kSide) != 0 ? kBlock + kLane : kLane + kSide)...);
}

// Of each 2 x 2 blocks of kSide x kSide, exchanges those that lie off the diagonal.
template <int kSide>
AM_INLINE void exchange_blocks(Floats* rows) {
  for (int i = 0; i < kBlock; ++i) {
    if ((i & kSide) != 0) continue;
    const Floats above = rows[i];
    const Floats below = rows[i + kSide];
    rows[i] = upper_row<kSide>(above, below, BlockLanes());
    rows[i + kSide] = lower_row<kSide>(above, below, BlockLanes());
  }
}

AM_INLINE void transpose_block(Floats* rows) {
  exchange_blocks<8>(rows);
  exchange_blocks<4>(rows);
  exchange_blocks<2>(rows);
  exchange_blocks<1>(rows);
}

}  // namespace am::nn::fused
