// Counter-based random numbers: the value is a pure function of (seed, stream, index).
//
// Every rank can draw the values of its own shard, at any offset, without drawing the others: so
// the initial parameters do not depend on the layout. The generator is Philox4x32-10 (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace am {

// FNV-1a, 64 bits: turns a parameter's name into its stream.
uint64_t hash_name(std::string_view name);
// 2^64 over the golden ratio, odd: multiples of it are all different.
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;
// SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit changes half of the output
// bits.
constexpr uint64_t finalized(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

// One block of four independent 32-bit words for (key, counter).
std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Standard normal values of one stream, addressed by index.
class NormalStream {
 public:
  NormalStream(uint64_t seed, std::string_view name);
  // Fills out[0..count) with the values at [first, first + count).
  void fill(float* out, int64_t first, int64_t count, float mean, float stddev) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// Values of one stream that are uniform in [-bound, bound), addressed by index.
class UniformStream {
 public:
  UniformStream(uint64_t seed, std::string_view name);
  void fill(float* out, int64_t first, int64_t count, float bound) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// A bijection of [0, size) that depends on `seed` alone: sample order without a stored permutation
// (Feistel network over the next even power of two, cycle-walking).
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed);
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t size_;
  uint64_t seed_;
  int half_bits_;
};

}  // namespace am
