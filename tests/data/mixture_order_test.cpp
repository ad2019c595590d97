#include "am/data/mixture_order.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

namespace am::data {
namespace {

using Source = MixtureOrder::Source;

std::vector<int64_t> counts_of(const std::vector<Source>& sources, int64_t places) {
  return MixtureOrder(sources).counts(places);
}

}  // namespace

TEST_CASE("each source has its share within one sample, after every sample") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> weight(0.001, 1.0);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<Source> sources(2 + random() % 9);
    double sum = 0.0;
    for (Source& source : sources) sum += source.weight = weight(random);
    const MixtureOrder order(sources);
    std::vector<int64_t> counts(sources.size());
    double worst = 0.0;
    for (int64_t n = 1; n <= 10'000; ++n) {
      const auto turn = order.turn(n - 1).value();
      REQUIRE(turn.nth == counts[turn.source]++);
      for (size_t i = 0; i < sources.size(); ++i) {
        const double share = sources[i].weight / sum * static_cast<double>(n);
        worst = std::max(worst, std::abs(static_cast<double>(counts[i]) - share));
      }
    }
    const double bound = 1.0 - 1.0 / (2.0 * static_cast<double>(sources.size()) - 2.0);
    CHECK(worst < bound + 1e-3);  // Tijdeman's bound
  }
}

TEST_CASE("equal weights take turns") {
  const MixtureOrder order({{}, {}, {}});
  std::vector<size_t> sources;
  for (int64_t i = 0; i < 6; ++i) sources.push_back(order.turn(i)->source);
  CHECK(std::vector(sources.begin(), sources.begin() + 3) ==
        std::vector(sources.begin() + 3, sources.end()));
}

TEST_CASE("a source with a limit is left out, and the others keep their shares") {
  const std::vector<Source> sources = {{.weight = 2}, {.weight = 1}, {.weight = 1, .most = 25}};
  CHECK(counts_of(sources, 100) == std::vector<int64_t>{50, 25, 25});
  CHECK(counts_of(sources, 400) == std::vector<int64_t>{250, 125, 25});
  CHECK_FALSE(MixtureOrder(sources).size());
}

TEST_CASE("a mixture whose sources all have limits ends") {
  const MixtureOrder order({{.weight = 1, .most = 3}, {.weight = 5, .most = 4}});
  CHECK(order.size() == 7);
  CHECK(order.turn(6));
  CHECK_FALSE(order.turn(7));
  CHECK(order.counts(100) == std::vector<int64_t>{3, 4});
}

TEST_CASE("a source without weight is never drawn") {
  CHECK(counts_of({{.weight = 0}, {.weight = 1e-9}}, 10) == std::vector<int64_t>{0, 10});
  CHECK(MixtureOrder({{.weight = 0}, {.weight = 1, .most = 2}}).size() == 2);
}

TEST_CASE("places are found in any order, far away too") {
  const std::vector<Source> sources = {{.weight = 0.61}, {.weight = 0.3}, {.weight = 0.09}};
  const MixtureOrder order(sources);
  const auto far = order.turn(1'000'003);
  const auto near = order.turn(300'000);
  const MixtureOrder fresh(sources);
  CHECK(fresh.turn(300'000) == near);
  CHECK(fresh.turn(1'000'003) == far);
  const auto counts = fresh.counts(1'000'003);
  CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == 1'000'003);
}

}  // namespace am::data
