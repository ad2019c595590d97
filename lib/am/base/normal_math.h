// The Box-Muller transform, written so that CPUs and GPUs compute bitwise equal values.
//
// The code between AM_ON_BOTH's parentheses is compiled here, and is also available as a string
// that the CUDA plugin compiles for the GPU. This code uses only operations that IEEE 754 rounds
// correctly (among them sqrtf), so that its results do not depend on the processor. It uses no
// library functions such as logf, because their last bits differ between implementations.
// Contraction into fused multiply-adds must be off: the CUDA plugin compiles with --fmad=false.
#pragma once

#include <cmath>

#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define AM_UNCONTRACTED __attribute__((optimize("fp-contract=off")))
#else
#define AM_UNCONTRACTED
#endif

#define AM_ON_BOTH(text, ...) \
  __VA_ARGS__                 \
  inline constexpr const char* text = #__VA_ARGS__

namespace am {

// natural_log(u) returns log u for 0 < u <= 1, with a relative error below 2^-33. With u = m 2^e,
// m in [sqrt(1/2), sqrt(2)) and s = (m - 1) / (m + 1), the result is
// log u = e log 2 + 2 (s + s^3 / 3 + s^5 / 5 + ..) up to s^13.
//
// sine_and_cosine(angle) accepts 0 <= angle <= 2 pi. It computes the Taylor series around the
// nearest multiple of pi / 2, up to the 12th power, with an error below 2^-36.
//
// normal_pair(a, b) returns two independent standard normal values, if a and b are independent
// and uniformly distributed 32-bit words.
AM_ON_BOTH(
    kNormalMathText,

    AM_UNCONTRACTED inline double natural_log(double u) {
      int exponent = 0;
      while (u < 0.70710678118654752) {
        u = u * 2.0;
        exponent = exponent - 1;
      }
      const double s = (u - 1.0) / (u + 1.0);
      const double z = s * s;
      double sum = 1.0 / 13.0;
      sum = sum * z + 1.0 / 11.0;
      sum = sum * z + 1.0 / 9.0;
      sum = sum * z + 1.0 / 7.0;
      sum = sum * z + 1.0 / 5.0;
      sum = sum * z + 1.0 / 3.0;
      sum = sum * z + 1.0;
      return exponent * 0.69314718055994531 + 2.0 * s * sum;
    }

    struct SineAndCosine { double sine, cosine; };

    AM_UNCONTRACTED inline SineAndCosine sine_and_cosine(double angle) {
      const double turns = angle * 0.63661977236758134;
      const int whole = static_cast<int>(turns);
      const int quarter = turns - whole < 0.5 ? whole : whole + 1;
      const double r = angle - quarter * 1.5707963267948966;
      const double z = r * r;
      double s = -1.0 / 39916800.0;
      s = s * z + 1.0 / 362880.0;
      s = s * z - 1.0 / 5040.0;
      s = s * z + 1.0 / 120.0;
      s = s * z - 1.0 / 6.0;
      s = s * z + 1.0;
      s = s * r;
      double c = 1.0 / 479001600.0;
      c = c * z - 1.0 / 3628800.0;
      c = c * z + 1.0 / 40320.0;
      c = c * z - 1.0 / 720.0;
      c = c * z + 1.0 / 24.0;
      c = c * z - 1.0 / 2.0;
      c = c * z + 1.0;
      switch (quarter % 4) {
        case 0:
          return {s, c};
        case 1:
          return {c, -s};
        case 2:
          return {-s, -c};
        default:
          return {-c, s};
      }
    }

    struct NormalPair { float first, second; };

    AM_UNCONTRACTED inline NormalPair normal_pair(unsigned a, unsigned b) {
      const float fraction = (static_cast<float>(a) + 1.0F) * 2.3283064365386963e-10F;
      const float square = static_cast<float>(-2.0 * natural_log(static_cast<double>(fraction)));
      const float radius = sqrtf(square < 0.0F ? 0.0F : square);
      const float angle = 6.2831854820251465F * (static_cast<float>(b) * 2.3283064365386963e-10F);
      const SineAndCosine both = sine_and_cosine(static_cast<double>(angle));
      return {radius * static_cast<float>(both.cosine), radius * static_cast<float>(both.sine)};
    });

}  // namespace am
