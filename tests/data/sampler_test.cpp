#include "am/data/sampler.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
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
  for (int64_t i = 0; i < count; ++i) samples.push_back(sampler.draw(i).value().sample);
  return samples;
}

std::vector<int64_t> part(const std::vector<int64_t>& all, int64_t first, int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

}  // namespace

TEST_CASE("in order, wrapping round") {
  const Sampler sampler({{.samples = 3}}, options(false));
  CHECK(sequence(sampler, 7) == std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("shuffled: each epoch is a permutation of its own") {
  const Sampler sampler({{.samples = 100}}, options(true));
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
  const auto order = [](int64_t seed) {
    return sequence(Sampler({{.samples = 100}}, options(true, seed)), 240);
  };
  CHECK(order(0) == order(0));
  CHECK(order(0) != order(1));
}

TEST_CASE("very many samples") {
  constexpr int64_t kSamples = int64_t{1} << 40;
  const int64_t sample = Sampler({{.samples = kSamples}}, options(true)).draw(493827159)->sample;
  CHECK(sample >= 0);
  CHECK(sample < kSamples);
}

TEST_CASE("a number of epochs ends the sequence") {
  const Sampler sampler({{.samples = 3, .epochs = 2}}, options(true));
  CHECK(sampler.size() == 6);
  std::map<int64_t, int> seen;
  for (int64_t i = 0; i < 6; ++i) ++seen[sampler.draw(i).value().sample];
  CHECK(seen == std::map<int64_t, int>{{0, 2}, {1, 2}, {2, 2}});
  CHECK_FALSE(sampler.draw(6));
  CHECK(sampler.epochs_before(3) == std::vector<double>{1.0});
  CHECK(sampler.epochs_before(99) == std::vector<double>{2.0});
}

TEST_CASE("each source of a mixture has epochs and an order of its own") {
  const std::vector<SampledSource> sources = {{.samples = 40, .weight = 0.5},
                                              {.samples = 40, .weight = 0.25},
                                              {.samples = 7, .weight = 0.25, .epochs = 2}};
  const Sampler sampler(sources, options(true));
  CHECK_FALSE(sampler.size());
  std::array<std::vector<int64_t>, 3> drawn;
  for (int64_t i = 0; i < 400; ++i) {
    const Draw draw = sampler.draw(i).value();
    drawn[draw.source].push_back(draw.sample);
  }
  CHECK(drawn[2].size() == 14);
  CHECK(part(drawn[0], 0, 40) != part(drawn[1], 0, 40));
  for (const size_t source : {0, 1}) {
    auto epoch = part(drawn[source], 0, 40);
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch.front() == 0);
    CHECK(std::adjacent_find(epoch.begin(), epoch.end()) == epoch.end());
  }
  // Positions can be drawn in any order.
  for (const int64_t place : {399, 5, 57, 56, 0}) {
    INFO(place);
    CHECK(sampler.draw(place) == Sampler(sources, options(true)).draw(place));
  }
  const std::vector<double> epochs = sampler.epochs_before(56);  // the last source ends there
  CHECK(epochs == std::vector<double>{28.0 / 40, 14.0 / 40, 2.0});
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
