#include "am/base/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "am/base/error.h"

using namespace am;

TEST_CASE("Philox gives the published values") {  // known-answer tests of Random123
  using Words = std::array<uint32_t, 4>;
  CHECK(philox4x32(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32(~0ull, ~0ull, ~0ull) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("names hash as FNV-1a") {
  CHECK(hash_name("") == 0xcbf29ce484222325u);
  CHECK(hash_name("a") == 0xaf63dc4c8601ec8cu);
  CHECK(hash_name("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("any part of a stream equals that part of the whole") {
  const NormalStream stream(7, "model.embed_tokens.weight");
  std::vector<float> whole(101);
  stream.fill(whole.data(), 0, 101, 1.0f, 0.5f);
  for (int64_t first = 0; first < 12; ++first) {
    for (int64_t count = 0; count < 12; ++count) {
      std::vector<float> part(12, -1e9f);
      stream.fill(part.data(), first, count, 1.0f, 0.5f);
      for (int64_t i = 0; i < count; ++i) {
        REQUIRE(part[static_cast<size_t>(i)] == whole[static_cast<size_t>(first + i)]);
      }
      for (auto i = static_cast<size_t>(count); i < part.size(); ++i) REQUIRE(part[i] == -1e9f);
    }
  }
}

TEST_CASE("uniform values fill their interval, in any part as in the whole") {
  constexpr int64_t kCount = 100000;
  std::vector<float> values(kCount);
  const UniformStream stream(3, "w");
  stream.fill(values.data(), 0, kCount, 0.25f);
  double sum = 0, square = 0;
  for (const float x : values) {
    REQUIRE((x >= -0.25f && x < 0.25f));
    sum += x;
    square += static_cast<double>(x) * x;
  }
  CHECK(std::abs(sum / kCount) < 0.002);
  CHECK(square / kCount == Approx(0.25 * 0.25 / 3).epsilon(0.02));
  float part = 0;
  stream.fill(&part, 4711, 1, 0.25f);
  CHECK(part == values[4711]);
  UniformStream(3, "v").fill(&part, 4711, 1, 0.25f);
  CHECK(part != values[4711]);
}

TEST_CASE("streams differ by seed and by name") {
  const auto first_of = [](uint64_t seed, const char* name) {
    float value;
    NormalStream(seed, name).fill(&value, 0, 1, 0.0f, 1.0f);
    return value;
  };
  CHECK(first_of(0, "a") != first_of(1, "a"));
  CHECK(first_of(0, "a") != first_of(0, "b"));
  CHECK(first_of(0, "a") == first_of(0, "a"));
}

TEST_CASE("normal values have the moments of a normal distribution") {
  constexpr int64_t kCount = 400000;
  std::vector<float> values(kCount);
  NormalStream(3, "w").fill(values.data(), 12345678901, kCount, 0.0f, 1.0f);
  double mean = 0, square = 0, cube = 0, fourth = 0, neighbours = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    REQUIRE(std::isfinite(x));
    mean += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
    if (i > 0) neighbours += x * values[i - 1];
  }
  // Bounds are five standard deviations of each estimate.
  const double unit = 5.0 / std::sqrt(static_cast<double>(kCount));
  CHECK(std::abs(mean / kCount) < unit);
  CHECK(std::abs(square / kCount - 1.0) < unit * std::sqrt(2.0));
  CHECK(std::abs(cube / kCount) < unit * std::sqrt(15.0));
  CHECK(std::abs(fourth / kCount - 3.0) < unit * std::sqrt(96.0));
  CHECK(std::abs(neighbours / kCount) < unit);
}

TEST_CASE("a permutation visits every index once, for every size") {
  for (uint64_t size : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 100u, 1000u, 4097u}) {
    const Permutation order(size, 42);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t at = order(i);
      REQUIRE(at < size);
      seen.insert(at);
    }
    CHECK(seen.size() == size);
  }
}

TEST_CASE("a permutation depends on its seed and leaves few indices in place") {
  const Permutation a(10000, 1), b(10000, 2);
  int equal = 0, fixed = 0, ascents = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    equal += a(i) == b(i);
    fixed += a(i) == i;
    if (i > 0) ascents += a(i) > a(i - 1);
  }
  CHECK(equal < 10);
  CHECK(fixed < 10);
  CHECK(std::abs(ascents - 5000) < 200);
  CHECK(Permutation(uint64_t{1} << 40, 5)(123456789) < uint64_t{1} << 40);
}

TEST_CASE("an index outside of the permutation is a bug that is caught") {
  CHECK_THROWS_AS(Permutation(4, 0)(4), Error);
}
