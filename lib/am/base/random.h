// Counter-based random numbers: a value is a pure function of (seed, stream, index). A stream is
// the sequence of values for one name, for example of a parameter.
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

// Returns the 64-bit FNV-1a hash of a text. The hash of a stream's name is the number of the
// stream.
uint64_t hash_name(std::string_view name);
// 2^64 divided by the golden ratio; odd, so its first 2^64 multiples are all different modulo 2^64.
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;
// SplitMix64's finaliser (Steele, Lea, Flood 2014): flipping any input bit flips half of the output
// bits on average.
constexpr uint64_t finalized(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// Returns the hash of a sequence of values. `value` is the last value, and `state` is the hash of
// the values before it.
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
// Returns a block of four independent 32-bit words for a key and a counter of 128 bits.
std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Normally distributed values of the stream `name`, addressed by index.
class NormalStream {
 public:
  NormalStream(uint64_t seed, std::string_view name);
  // Return the arguments `key` and `counter_high` of philox4x32 for this stream. `counter_low` is
  // the index of a block of four values.
  uint64_t key() const { return key_; }
  uint64_t stream() const { return stream_; }
  // Fills out[0..count) with the stream's values at the indices [first, first + count), which have
  // this mean and standard deviation.
  void fill(float* out, int64_t first, int64_t count, float mean, float stddev) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// Values of the stream `name`, uniformly distributed in [-bound, bound), addressed by index.
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

// A pseudorandom bijection of [0, size) that depends only on `size` and `seed`. It defines an order
// of samples without a stored permutation. The values are computed by a Feistel network over the
// next power of 4, with cycle-walking.
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
