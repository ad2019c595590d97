// Counter-based random numbers: a value is a pure function of (seed, stream, index).
//
// Every rank can draw the values of its own shard, at any offset, without drawing other ranks'
// values; therefore initial parameters do not depend on the layout. The generator is Philox4x32-10
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace am {

// Returns the 64-bit FNV-1a hash of a parameter's name, which is the number of its stream.
uint64_t hash_name(std::string_view name);
// 2^64 divided by the golden ratio; odd, so its first 2^64 multiples are all different modulo 2^64.
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;
// SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit flips half of the output bits
// on average.
constexpr uint64_t finalized(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// Returns the hash of a sequence that ends with `value`, from the hash `state` of the values
// before.
constexpr uint64_t chained(uint64_t state, uint64_t value) {
  return finalized(state ^ value) + kGoldenRatio;
}
// Returns the hash as 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

// The two multipliers of Philox4x32-10, and the keys of its ten rounds.
inline constexpr uint64_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint64_t kPhiloxMultiplier1 = 0xCD9E8D57u;
struct PhiloxRound {
  uint32_t key0, key1;
};
std::array<PhiloxRound, 10> philox_rounds(uint64_t key);
// Returns one block of four independent 32-bit words for (key, counter).
std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Standard normal values of one stream, addressed by index.
class NormalStream {
 public:
  NormalStream(uint64_t seed, std::string_view name);
  // Return the arguments `key` and `counter_high` of philox4x32 for this stream. `counter_low` is
  // the index of a block of four values.
  uint64_t key() const { return key_; }
  uint64_t stream() const { return stream_; }
  // Fills out[0..count) with the stream's values at the indices [first, first + count).
  void fill(float* out, int64_t first, int64_t count, float mean, float stddev) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// Values of one stream, uniform in [-bound, bound), addressed by index.
class UniformStream {
 public:
  UniformStream(uint64_t seed, std::string_view name);
  // Return the arguments `key` and `counter_high` of philox4x32 for this stream, as in
  // NormalStream.
  uint64_t key() const { return key_; }
  uint64_t stream() const { return stream_; }
  void fill(float* out, int64_t first, int64_t count, float bound) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// A bijection of [0, size) that depends only on `seed`: a sample order without a stored permutation
// (Feistel network over the next power of 4, cycle-walking).
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
