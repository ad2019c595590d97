// Converts vectors of float32 or bfloat16 to doubles, for statistics and comparisons.
//
//   template <int kBytes>
//   AM_INLINE TwoWide<kBytes> load_wide(const float* values) {   // a register's two halves
//     return widened<kBytes>(nn::fused::load(values, nn::fused::All<kBytes>{}));
//   }
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/lanes.h"

namespace am::values {

template <int kBytes>
using Floats = nn::fused::Vector<float, kBytes>;
template <int kBytes>
using Doubles = nn::fused::Vector<double, kBytes>;

template <int kBytes>
struct TwoWide {
  Doubles<kBytes> low, high;
};
template <int kBytes, int... kLane>
AM_INLINE TwoWide<kBytes> widened(const Floats<kBytes>& x,
                                  std::integer_sequence<int, kLane...> low) {
  constexpr std::integer_sequence<int, (static_cast<int>(sizeof...(kLane)) + kLane)...> kHigh;
  return {nn::fused::converted<Doubles<kBytes>>(x, low),
          nn::fused::converted<Doubles<kBytes>>(x, kHigh)};
}
template <int kBytes>
AM_INLINE TwoWide<kBytes> widened(const Floats<kBytes>& x) {
  return widened<kBytes>(x, std::make_integer_sequence<int, nn::fused::kLanes<double, kBytes>>());
}

// Calls `step` with vectors of doubles from `x` and `y` at equal positions. For each pair of loaded
// float vectors, calls `step` first with the lower halves, then with the upper halves. Stops when
// fewer elements remain than a float vector holds. Returns the number of processed elements of `x`.
template <int kBytes, typename Scalar, typename Step>
AM_INLINE int64_t for_each_wide_pair(const Scalar* x, const Scalar* y, int64_t count,
                                     const Step& step) {
  constexpr int64_t kStep = nn::fused::kLanes<float, kBytes>;
  constexpr nn::fused::All<kBytes> kAll;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const TwoWide<kBytes> a = widened<kBytes>(nn::fused::load(x + i, kAll));
    const TwoWide<kBytes> b = widened<kBytes>(nn::fused::load(y + i, kAll));
    step(a.low, b.low);
    step(a.high, b.high);
  }
  return i;
}

// Returns the absolute values of the elements. Clears their sign bits.
template <int kBytes>
AM_INLINE Doubles<kBytes> magnitude(const Doubles<kBytes>& x) {
  using Bits = typename nn::fused::VectorOf<int64_t, nn::fused::kLanes<double, kBytes>>::Type;
  return reinterpret_cast<Doubles<kBytes>>(reinterpret_cast<Bits>(x) &
                                           std::numeric_limits<int64_t>::max());
}

}  // namespace am::values
