// Vectors of 64 bytes: what the operators of this folder compute with.
//
// They are the compiler's own vector types, so one source serves every processor: run_kernel
// (dispatch.h) compiles a kernel for several instruction sets, and what an instruction set lacks
// the compiler makes of narrower vectors. Everything here is inlined into a kernel; a function that
// is not would be compiled for the oldest processor.
//
//   for_lanes<float>(count, [&](int64_t i, auto part) AM_LANES {
//     store(out + i, part, load(in + i, part) * 2.0F);   // `part`: all lanes, or the first few
//   });
//
// bfloat16 is computed with in float32 and rounded to even when it is stored.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

// GCC tells that vectors of 64 bytes are passed in another way on processors that have them; here
// none is passed to a function that exists on its own.
#pragma GCC diagnostic ignored "-Wpsabi"

#define AM_INLINE [[gnu::always_inline]] inline
#define AM_LANES __attribute__((always_inline))

namespace am::nn::fused {

template <typename Scalar>
using Wide = std::conditional_t<std::is_same_v<Scalar, double>, double, float>;

template <typename Element, int kCount>
struct VectorOf {
  using Type [[gnu::vector_size(sizeof(Element) * kCount)]] = Element;
};

template <typename Scalar>
inline constexpr int kLanes = 64 / sizeof(Wide<Scalar>);
template <typename Scalar>
using Vector = typename VectorOf<Wide<Scalar>, kLanes<Scalar>>::Type;

using Floats = Vector<float>;
using Doubles = Vector<double>;
using Integers = VectorOf<int32_t, 16>::Type;
using Halves = VectorOf<uint16_t, 16>::Type;

// How many lanes a step is about.
struct All {};
struct First {
  int64_t count;
};

template <typename Scalar, typename Part>
AM_INLINE size_t bytes_of(Part part) {
  if constexpr (std::is_same_v<Part, All>) {
    return kLanes<Scalar> * sizeof(Scalar);
  } else {
    return static_cast<size_t>(part.count) * sizeof(Scalar);
  }
}

template <typename Scalar, typename Step>
AM_INLINE void for_lanes(int64_t count, const Step& step) {
  int64_t i = 0;
  for (; i + kLanes<Scalar> <= count; i += kLanes<Scalar>) step(i, All{});
  if (i < count) step(i, First{count - i});
}

// ---- memory
// ---------------------------------------------------------------------------------------

// Lanes beyond the part are 0.
template <typename Scalar, typename Part>
AM_INLINE Vector<Scalar> load(const Scalar* from, Part part) {
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    Halves halves = {};
    std::memcpy(&halves, from, bytes_of<Scalar>(part));
    return reinterpret_cast<Floats>(__builtin_convertvector(halves, Integers) << 16);
  } else {
    Vector<Scalar> lanes = {};
    std::memcpy(&lanes, from, bytes_of<Scalar>(part));
    return lanes;
  }
}

// To bfloat16 and back to float32: nearest, ties to even; not-a-number stays one.
AM_INLINE Integers bfloat16_bits(const Floats& x) {
  const Integers bits = reinterpret_cast<Integers>(x);
  const Integers rounded = bits + 0x7fff + ((bits >> 16) & 1);
  // NOLINTNEXTLINE(misc-redundant-expression): not-a-number is what differs from itself
  return ((x == x) ? rounded : (bits | 0x400000)) >> 16 & 0xffff;
}

template <typename Scalar, typename Part>
AM_INLINE void store(Scalar* to, Part part, const Vector<Scalar>& lanes) {
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    const Halves halves = __builtin_convertvector(bfloat16_bits(lanes), Halves);
    std::memcpy(to, &halves, bytes_of<Scalar>(part));
  } else {
    std::memcpy(to, &lanes, bytes_of<Scalar>(part));
  }
}

// What storing as Scalar and loading again would give.
template <typename Scalar>
AM_INLINE Vector<Scalar> rounded(const Vector<Scalar>& lanes) {
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    return reinterpret_cast<Floats>(bfloat16_bits(lanes) << 16);
  } else {
    return lanes;
  }
}

template <typename Scalar>
AM_INLINE Vector<Scalar> filled(Wide<Scalar> value) {
  return Vector<Scalar>{} + value;
}

// Lanes beyond the part become `value`.
template <typename Scalar, typename Part>
AM_INLINE Vector<Scalar> outside_set(const Vector<Scalar>& lanes, Part part, Wide<Scalar> value) {
  if constexpr (std::is_same_v<Part, All>) {
    return lanes;
  } else {
    Vector<Scalar> changed = lanes;
    for (int64_t i = part.count; i < kLanes<Scalar>; ++i) changed[i] = value;
    return changed;
  }
}

// ---- arithmetic
// -----------------------------------------------------------------------------------

template <typename Lanes>
AM_INLINE Lanes larger(const Lanes& a, const Lanes& b) {
  return a > b ? a : b;
}

// In double, so that a row's length costs no precision.
template <typename Scalar>
AM_INLINE double sum_of(const Vector<Scalar>& lanes) {
  double sum = 0.0;
  for (int i = 0; i < kLanes<Scalar>; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

template <typename Scalar>
AM_INLINE Wide<Scalar> largest_of(const Vector<Scalar>& lanes) {
  Wide<Scalar> largest = lanes[0];
  for (int i = 1; i < kLanes<Scalar>; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

template <typename Scalar>
AM_INLINE Wide<Scalar> smallest_of(const Vector<Scalar>& lanes) {
  Wide<Scalar> smallest = lanes[0];
  for (int i = 1; i < kLanes<Scalar>; ++i) smallest = lanes[i] < smallest ? lanes[i] : smallest;
  return smallest;
}

// e^x to about one unit in the last place: x = n log 2 + r, and the polynomial of Cephes' expf
// (Moshier, 1989) for r. 0 below the smallest normal number, not-a-number stays one.
AM_INLINE Floats exponential(const Floats& x) {
  constexpr float kLowest = -87.33654F;
  constexpr float kHighest = 88.376F;
  constexpr float kRounds = 12582912.0F;  // 1.5 * 2^23: adding it leaves no place for a fraction
  Floats limited = x > kHighest ? Floats{} + kHighest : x;
  limited = limited < kLowest ? Floats{} + kLowest : limited;
  const Floats whole = limited * 1.44269504F + kRounds;
  const Floats n = whole - kRounds;
  const Floats r = (limited - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // n's bits are the last of `whole`: 2^n is made in the place of the exponent.
  const Floats power =
      reinterpret_cast<Floats>((reinterpret_cast<Integers>(whole) << 23) + (127 << 23));
  return x < kLowest ? Floats{} : p * power;
}

AM_INLINE Doubles exponential(const Doubles& x) {
  Doubles y = {};
  for (int i = 0; i < kLanes<double>; ++i) y[i] = std::exp(x[i]);
  return y;
}

}  // namespace am::nn::fused
