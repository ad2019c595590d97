// Transposes a square block of N vectors of N elements in place. The functions are inlined into
// kernels, like those of lanes.h.
#pragma once

#include <utility>

#include "am/nn/fused/lanes.h"

namespace am::nn::fused {

// Return the new upper row, and the new lower row, that exchange_blocks computes from two rows
// kSide apart.
template <int kSide, typename Lanes, int... kLane>
AM_INLINE Lanes upper_row(const Lanes& above, const Lanes& below,
                          std::integer_sequence<int, kLane...> /*lanes*/) {
  constexpr int kBelow = sizeof...(kLane);
  return __builtin_shufflevector(above, below,
                                 ((kLane & kSide) != 0 ? kBelow + kLane - kSide : kLane)...);
}
template <int kSide, typename Lanes, int... kLane>
AM_INLINE Lanes lower_row(const Lanes& above, const Lanes& below,
                          std::integer_sequence<int, kLane...> /*lanes*/) {
  constexpr int kBelow = sizeof...(kLane);
  return __builtin_shufflevector(above, below,
                                 ((kLane & kSide) != 0 ? kBelow + kLane : kLane + kSide)...);
}

// Divides the matrix into groups of 2 x 2 blocks of kSide x kSide elements, and exchanges the two
// blocks of each group that are not on the diagonal.
template <int kSide, typename Lanes>
AM_INLINE void exchange_blocks(Lanes* rows) {
  constexpr std::make_integer_sequence<int, kCountOf<Lanes>> kNumbers;
  for (int i = 0; i < kCountOf<Lanes>; ++i) {
    if ((i & kSide) != 0) continue;
    const Lanes above = rows[i];
    const Lanes below = rows[i + kSide];
    rows[i] = upper_row<kSide>(above, below, kNumbers);
    rows[i + kSide] = lower_row<kSide>(above, below, kNumbers);
  }
}

// Transposes `rows`, an array of kCountOf<Lanes> vectors. kCountOf<Lanes> must be 4, 8 or 16.
template <typename Lanes>
AM_INLINE void transpose_block(Lanes* rows) {
  if constexpr (kCountOf < Lanes >> 8) exchange_blocks<8>(rows);
  if constexpr (kCountOf < Lanes >> 4) exchange_blocks<4>(rows);
  exchange_blocks<2>(rows);
  exchange_blocks<1>(rows);
}

}  // namespace am::nn::fused
