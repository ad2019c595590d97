// Tests the compact notation for lists of ranks: runs with a constant stride.
#include "am/base/rank_runs.h"

#include <catch2/catch.hpp>

namespace am {

TEST_CASE("a list of ranks is runs of equal steps") {
  const auto text = [](const std::vector<int64_t>& ranks) { return rank_runs(ranks).dump(); };
  CHECK(text({}) == "[]");
  CHECK(text({5}) == "[[5,1,1]]");
  CHECK(text({0, 8, 16, 24}) == "[[0,8,4]]");
  CHECK(text({3, 4, 7}) == "[[3,1,2],[7,1,1]]");
  CHECK(text({0, 2, 3, 4}) == "[[0,1,1],[2,1,3]]");
  std::vector<int64_t> flat(16384);
  for (size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<int64_t>(i);
  CHECK(text(flat) == "[[0,1,16384]]");
  for (const std::vector<int64_t>& ranks :
       {std::vector<int64_t>{}, {5}, {0, 8, 16}, {9, 3, 3, 1}, {0, 2, 3, 4, 100, 7}, flat}) {
    CHECK(ranks_in_runs(rank_runs(ranks)) == ranks);
  }
}

TEST_CASE("runs that nobody writes are no list") {
  for (const char* text :
       {"3", "[1]", "[[1]]", "[[0,1]]", R"([["0",1,2]])", "[[0,1,99999999999]]", "[[-1,1,1]]",
        "[[0,1,16777216],[0,1,1]]", "[[0,99999999999,2]]", "[[0,1,0]]", "[[0.5,1,1]]"}) {
    CHECK(ranks_in_runs(Json::parse(text)).empty());
  }
}

}  // namespace am
