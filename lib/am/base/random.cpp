#include "am/base/random.h"

#include <cmath>
#include <cstdio>

#include "am/base/error.h"
#include "am/base/normal_math.h"

namespace am {

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

std::string hash_text(uint64_t hash) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

namespace {

uint32_t high_half(uint64_t product) { return static_cast<uint32_t>(product >> 32); }
uint32_t low_half(uint64_t product) { return static_cast<uint32_t>(product); }

// One step of SplitMix64.
uint64_t mix(uint64_t x) { return finalized(x + kGoldenRatio); }

}  // namespace

std::array<PhiloxRound, 10> philox_rounds(uint64_t key) {
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  std::array<PhiloxRound, 10> rounds;
  uint32_t k0 = low_half(key), k1 = high_half(key);
  for (PhiloxRound& round : rounds) {
    round = {k0, k1};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return rounds;
}

std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> x = {low_half(counter_low), high_half(counter_low),
                               low_half(counter_high), high_half(counter_high)};
  for (const PhiloxRound& round : philox_rounds(key)) {
    const uint64_t p0 = kPhiloxMultiplier0 * x[0];
    const uint64_t p1 = kPhiloxMultiplier1 * x[2];
    x = {high_half(p1) ^ x[1] ^ round.key0, low_half(p1), high_half(p0) ^ x[3] ^ round.key1,
         low_half(p0)};
  }
  return x;
}

NormalStream::NormalStream(uint64_t seed, std::string_view name)
    : key_(mix(seed)), stream_(hash_name(name)) {}

namespace {

// Fills out[0..count) with the values at the indices [first, first + count). A block of four words
// determines the values 4 * block ... 4 * block + 3, whatever `first` is. `values_of(words)`
// converts a block to its four values.
template <typename ValuesOf>
void fill_blocks(uint64_t key, uint64_t stream, float* out, int64_t first, int64_t count,
                 const ValuesOf& values_of) {
  const int64_t end = first + count;
  int64_t index = first;
  while (index < end) {
    const auto block = static_cast<uint64_t>(index) / 4;
    const std::array<float, 4> values = values_of(philox4x32(key, block, stream));
    for (int64_t lane = index % 4; lane < 4 && index < end; ++lane, ++index) {
      *out++ = values[static_cast<size_t>(lane)];
    }
  }
}

}  // namespace

void NormalStream::fill(float* out, int64_t first, int64_t count, float mean, float stddev) const {
  fill_blocks(key_, stream_, out, first, count, [&](const std::array<uint32_t, 4>& words) {
    const NormalPair low = normal_pair(words[0], words[1]);
    const NormalPair high = normal_pair(words[2], words[3]);
    return std::array<float, 4>{mean + stddev * low.first, mean + stddev * low.second,
                                mean + stddev * high.first, mean + stddev * high.second};
  });
}

UniformStream::UniformStream(uint64_t seed, std::string_view name)
    : key_(mix(seed)), stream_(hash_name(name)) {}

void UniformStream::fill(float* out, int64_t first, int64_t count, float bound) const {
  fill_blocks(key_, stream_, out, first, count, [&](const std::array<uint32_t, 4>& words) {
    // Uses the upper 24 bits of a word, because a float's significand has 24.
    constexpr float kUnit = 1.0F / 16777216.0F;
    std::array<float, 4> values{};
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = bound * (2.0F * kUnit * static_cast<float>(words[i] >> 8U) - 1.0F);
    }
    return values;
  });
}

namespace {

// Returns the smallest h with 2^(2h) >= size, at least 1.
int half_bits_for(uint64_t size) {
  int half = 1;
  while (half < 32 && (uint64_t{1} << (2 * half)) < size) ++half;
  return half;
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t seed)
    : size_(size), seed_(mix(seed)), half_bits_(half_bits_for(size)) {}

uint64_t Permutation::operator()(uint64_t index) const {
  AM_ASSERT(index < size_, "a permutation was asked for an index outside of it");
  constexpr uint64_t kRounds = 8;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // Cycle-walking: applies the Feistel network until the index is in [0, size), which keeps the map
  // a bijection. The network's domain is at most 4 * size, so few repetitions are needed.
  do {
    uint64_t left = index >> half_bits_;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = mix(seed_ ^ mix(right + (round << 32)));
      const uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace am
