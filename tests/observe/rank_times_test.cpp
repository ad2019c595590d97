#include "am/observe/rank_times.h"

#include <catch2/catch.hpp>
#include <vector>

namespace am::observe {
namespace {

std::vector<int64_t> ranks_of(const std::vector<SlowRank>& slow) {
  std::vector<int64_t> ranks;
  for (const SlowRank& each : slow) ranks.push_back(each.rank);
  return ranks;
}

}  // namespace

TEST_CASE("the rank for which its peers wait is found, with the kind of its time") {
  std::vector<RankTimes> times(4, {.compute = 1.0, .data = 0.01, .waiting = 0.8});
  const std::vector<int64_t> peers(4, 0);
  CHECK(find_slow_ranks(times, peers).empty());
  times[2] = {.compute = 1.75, .data = 0.01, .waiting = 0.05};
  auto slow = find_slow_ranks(times, peers);
  REQUIRE(ranks_of(slow) == std::vector<int64_t>{2});
  CHECK(slow[0].kind == "compute");
  CHECK(describe(slow[0], "node7") ==
        "rank 2 (node7) holds up the others: 1.8 s of compute per step, usual: 1.0 s");
  times[2] = {.compute = 1.0, .data = 0.8, .waiting = 0.01};
  slow = find_slow_ranks(times, peers);
  REQUIRE(ranks_of(slow) == std::vector<int64_t>{2});
  CHECK(slow[0].kind == "data");
  times[2] = {.compute = 1.3, .data = 0.01, .saving = 0.5};
  slow = find_slow_ranks(times, peers);
  REQUIRE(ranks_of(slow) == std::vector<int64_t>{2});
  CHECK(slow[0].kind == "saving");  // exceeds its median more than compute does
}

TEST_CASE("one of two ranks can be slow, and small differences are not reported") {
  const std::vector<int64_t> peers(2, 0);
  const std::vector<RankTimes> equal = {{.compute = 1.0, .waiting = 0.2}, {.compute = 1.2}};
  CHECK(find_slow_ranks(equal, peers).empty());
  const std::vector<RankTimes> slow = {{.compute = 1.0, .waiting = 0.4}, {.compute = 1.4}};
  CHECK(ranks_of(find_slow_ranks(slow, peers)) == std::vector<int64_t>{1});
}

TEST_CASE("stages with different work are not compared with each other") {
  const std::vector<int64_t> stages = {0, 0, 1, 1};
  std::vector<RankTimes> times = {{.compute = 1.0, .waiting = 2.0},
                                  {.compute = 1.0, .waiting = 2.0},
                                  {.compute = 3.0},
                                  {.compute = 3.0}};
  CHECK(find_slow_ranks(times, stages).empty());
  times[1].compute = 2.0;
  times[1].waiting = 1.0;
  CHECK(ranks_of(find_slow_ranks(times, stages)) == std::vector<int64_t>{1});
}

TEST_CASE("a rank without peers is compared with its earlier times") {
  const std::vector<int64_t> stages = {0, 1};
  const std::vector<RankTimes> before = {{.compute = 1.0, .waiting = 2.0}, {.compute = 3.0}};
  const std::vector<RankTimes> after = {{.compute = 4.0}, {.compute = 3.0, .waiting = 1.0}};
  CHECK(find_slow_ranks(after, stages).empty());
  CHECK(find_slow_ranks(before, stages, before).empty());
  CHECK(ranks_of(find_slow_ranks(after, stages, before)) == std::vector<int64_t>{0});
  const std::vector<RankTimes> saves = {{.compute = 1.0, .saving = 9.0}, {.compute = 3.0}};
  CHECK(find_slow_ranks(saves, stages, before).empty());
}

TEST_CASE("many ranks are compared in one pass") {
  std::vector<RankTimes> times(16384, {.compute = 1.0, .waiting = 0.5});
  times[12345].compute = 2.0;
  CHECK(ranks_of(find_slow_ranks(times, std::vector<int64_t>(times.size(), 0))) ==
        std::vector<int64_t>{12345});
}

}  // namespace am::observe
