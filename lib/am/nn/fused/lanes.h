// SIMD vectors as wide as the processor's registers. The operators of this folder use these types.
//
// The types are the compiler's vector types, so one source serves every processor: run_kernel
// (dispatch.h) compiles a kernel for several instruction sets, each with its register width,
// kBytes. Vectors must not be wider than registers, because the compiler would keep wider vectors
// in memory and compare them element by element. Every function here must be inlined into a kernel,
// because a separate function would be compiled for the baseline instruction set.
//
//   template <int kBytes>
//   AM_INLINE static void run(float* out, const float* in, int64_t count) {
//     for_lanes<float, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
//       store(out + i, part, load(in + i, part) * 2.0F);   // `part`: all lanes, or the first few
//     });
//   }
//
// bfloat16 is computed in float32 and rounded to nearest even when stored.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// Silences GCC's warning that the calling convention of wide vectors depends on the processor. No
// wide vector is passed to a function that is not inlined.
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

template <typename Scalar, int kBytes>
inline constexpr int kLanes = kBytes / static_cast<int>(sizeof(Wide<Scalar>));
template <typename Scalar, int kBytes>
using Vector = typename VectorOf<Wide<Scalar>, kLanes<Scalar, kBytes>>::Type;

// Element type of a vector.
template <typename Lanes>
using ElementOf = std::remove_cvref_t<decltype(std::declval<Lanes&>()[0])>;
template <typename Lanes>
inline constexpr int kCountOf = static_cast<int>(sizeof(Lanes) / sizeof(ElementOf<Lanes>));
// Integer vectors with as many lanes as `Lanes`.
template <typename Lanes>
using IntegersOf = typename VectorOf<int32_t, kCountOf<Lanes>>::Type;
template <typename Lanes>
using HalvesOf = typename VectorOf<uint16_t, kCountOf<Lanes>>::Type;

// The lanes that one step of for_lanes uses: all of them, or the first `count`.
template <int kBytes>
struct All {};
template <int kBytes>
struct First {
  int64_t count;
};

template <typename Scalar, int kBytes>
AM_INLINE size_t bytes_of(All<kBytes> /*part*/) {
  return kLanes<Scalar, kBytes> * sizeof(Scalar);
}
template <typename Scalar, int kBytes>
AM_INLINE size_t bytes_of(First<kBytes> part) {
  return static_cast<size_t>(part.count) * sizeof(Scalar);
}

template <typename Scalar, int kBytes, typename Step>
AM_INLINE void for_lanes(int64_t count, const Step& step) {
  constexpr int64_t kStep = kLanes<Scalar, kBytes>;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) step(i, All<kBytes>{});
  if (i < count) step(i, First<kBytes>{count - i});
}

// Converts the lanes kLane of a vector to a wider type. GCC compiles this lane-by-lane code to one
// instruction, but __builtin_convertvector to several instructions on smaller vectors.
template <typename To, typename From, int... kLane>
AM_INLINE To converted(const From& x, std::integer_sequence<int, kLane...> /*lanes*/) {
  return To{static_cast<ElementOf<To>>(x[kLane])...};
}

// ---- memory

// Loads the lanes of `part`. Lanes beyond the part are 0.
template <typename Scalar, template <int> typename Part, int kBytes>
AM_INLINE Vector<Scalar, kBytes> load(const Scalar* from, Part<kBytes> part) {
  using Lanes = Vector<Scalar, kBytes>;
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    HalvesOf<Lanes> halves = {};
    std::memcpy(&halves, from, bytes_of<Scalar>(part));
    constexpr std::make_integer_sequence<int, kCountOf<Lanes>> kAll;
    return reinterpret_cast<Lanes>(converted<IntegersOf<Lanes>>(halves, kAll) << 16);
  } else {
    Lanes lanes = {};
    std::memcpy(&lanes, from, bytes_of<Scalar>(part));
    return lanes;
  }
}

// Returns the bits of x rounded to bfloat16, to nearest and ties to even; NaN stays NaN.
template <typename Lanes>
AM_INLINE IntegersOf<Lanes> bfloat16_bits(const Lanes& x) {
  const auto bits = reinterpret_cast<IntegersOf<Lanes>>(x);
  const IntegersOf<Lanes> rounded = bits + 0x7fff + ((bits >> 16) & 1);
  // NOLINTNEXTLINE(misc-redundant-expression): not-a-number is what differs from itself
  return ((x == x) ? rounded : (bits | 0x400000)) >> 16 & 0xffff;
}

template <typename Scalar, template <int> typename Part, int kBytes>
AM_INLINE void store(Scalar* to, Part<kBytes> part, const Vector<Scalar, kBytes>& lanes) {
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    using Halves = HalvesOf<Vector<Scalar, kBytes>>;
    const Halves halves = __builtin_convertvector(bfloat16_bits(lanes), Halves);
    std::memcpy(to, &halves, bytes_of<Scalar>(part));
  } else {
    std::memcpy(to, &lanes, bytes_of<Scalar>(part));
  }
}

// Returns `lanes` rounded to Scalar's precision, as by a store and a load.
template <typename Scalar, typename Lanes>
AM_INLINE Lanes rounded(const Lanes& lanes) {
  if constexpr (std::is_same_v<Scalar, c10::BFloat16>) {
    return reinterpret_cast<Lanes>(bfloat16_bits(lanes) << 16);
  } else {
    return lanes;
  }
}

// Returns `lanes` with `value` in the lanes beyond `part`.
template <typename Lanes, int kBytes>
AM_INLINE Lanes outside_set(const Lanes& lanes, All<kBytes> /*part*/, ElementOf<Lanes> /*value*/) {
  return lanes;
}
template <typename Lanes, int kBytes>
AM_INLINE Lanes outside_set(const Lanes& lanes, First<kBytes> part, ElementOf<Lanes> value) {
  Lanes changed = lanes;
  for (int64_t i = part.count; i < kCountOf<Lanes>; ++i) changed[i] = value;
  return changed;
}

// ---- arithmetic

template <typename Lanes>
AM_INLINE Lanes larger(const Lanes& a, const Lanes& b) {
  return a > b ? a : b;
}

// Returns the sum of all lanes. The lanes are added in double, which avoids rounding errors of
// float.
template <typename Lanes>
AM_INLINE double sum_of(const Lanes& lanes) {
  double sum = 0.0;
  for (int i = 0; i < kCountOf<Lanes>; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

template <typename Lanes>
AM_INLINE ElementOf<Lanes> largest_of(const Lanes& lanes) {
  ElementOf<Lanes> largest = lanes[0];
  for (int i = 1; i < kCountOf<Lanes>; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

template <typename Lanes>
AM_INLINE ElementOf<Lanes> smallest_of(const Lanes& lanes) {
  ElementOf<Lanes> smallest = lanes[0];
  for (int i = 1; i < kCountOf<Lanes>; ++i) smallest = lanes[i] < smallest ? lanes[i] : smallest;
  return smallest;
}

// Returns e^x, accurate to about one unit in the last place. Doubles use std::exp. For floats,
// splits x into n log 2 + r, and evaluates the polynomial of Cephes' expf (Moshier, 1989) at r. A
// float result is 0 if it would be below the smallest normal number, and at most e^88.376; NaN
// stays NaN.
template <typename Lanes>
AM_INLINE Lanes exponential(const Lanes& x) {
  if constexpr (std::is_same_v<ElementOf<Lanes>, double>) {
    Lanes y = {};
    for (int i = 0; i < kCountOf<Lanes>; ++i) y[i] = std::exp(x[i]);
    return y;
  } else {
    constexpr float kLowest = -87.33654F;
    constexpr float kHighest = 88.376F;
    constexpr float kRounds = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    Lanes limited = x > kHighest ? Lanes{} + kHighest : x;
    limited = limited < kLowest ? Lanes{} + kLowest : limited;
    const Lanes whole = limited * 1.44269504F + kRounds;
    const Lanes n = whole - kRounds;
    const Lanes r = (limited - n * 0.693359375F) + n * 2.12194440e-4F;
    Lanes p = r * 1.9875691500e-4F + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    // The low bits of `whole` are n. Shifted into the exponent, and added to the bias 127, they
    // form the bits of 2^n.
    const Lanes power =
        reinterpret_cast<Lanes>((reinterpret_cast<IntegersOf<Lanes>>(whole) << 23) + (127 << 23));
    return x < kLowest ? Lanes{} : p * power;
  }
}

}  // namespace am::nn::fused
