#include "am/data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <vector>

using namespace am;
using namespace am::data;

namespace {

SamplerOptions options(bool shuffle, int64_t seed = 0) {
  SamplerOptions result;
  result.shuffle = shuffle;
  result.seed = seed;
  return result;
}

std::vector<int64_t> sequence(const Sampler& sampler, int64_t count) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(sampler.sample(i));
  return samples;
}

std::vector<int64_t> part(const std::vector<int64_t>& all, int64_t first, int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

}  // namespace

TEST_CASE("in order, wrapping round") {
  const Sampler sampler(3, options(false));
  CHECK(sequence(sampler, 7) == std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("shuffled: each epoch is a permutation of its own") {
  const Sampler sampler(100, options(true));
  const auto all = sequence(sampler, 300);
  std::vector<int64_t> in_order(100);
  std::iota(in_order.begin(), in_order.end(), 0);
  for (const int64_t epoch : {0, 1, 2}) {
    auto samples = part(all, 100 * epoch, 100);
    CHECK(samples != in_order);
    std::sort(samples.begin(), samples.end());
    CHECK(samples == in_order);
  }
  CHECK(part(all, 0, 100) != part(all, 100, 100));
}

TEST_CASE("the order depends on the seed") {
  const auto order = [](int64_t seed) { return sequence(Sampler(100, options(true, seed)), 240); };
  CHECK(order(0) == order(0));
  CHECK(order(0) != order(1));
}

TEST_CASE("very many samples") {
  const Sampler sampler(int64_t{1} << 40, options(true));
  const int64_t sample = sampler.sample(493827159);
  CHECK(sample >= 0);
  CHECK(sample < sampler.num_samples());
}

TEST_CASE("every layout deals out the same global batch") {
  constexpr int64_t kGlobal = 24;
  for (const auto& [micro, dp] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 3}, {4, 2}, {24, 1}, {1, 8}}) {
    std::set<int64_t> positions;
    for (int64_t m = 0; m < kGlobal / (micro * dp); ++m) {
      for (int64_t d = 0; d < dp; ++d) {
        const int64_t first = micro_batch_position(m, {micro, dp, d});
        for (int64_t i = 0; i < micro; ++i) CHECK(positions.insert(first + i).second);
      }
    }
    CHECK(positions.size() == kGlobal);
    CHECK(*positions.rbegin() == kGlobal - 1);
  }
  CHECK(micro_batch_position(3, {2, 4, 1}) == 3 * 2 * 4 + 2);
}
