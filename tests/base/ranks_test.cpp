#include "am/base/ranks.h"

#include <catch2/catch.hpp>

namespace am {

TEST_CASE("lists of ranks are short", "[ranks]") {
  CHECK(rank_list({8, 0, 2, 1, 3}) == "0-3, 8");
  CHECK(rank_list({0, 1}) == "0, 1");
  CHECK(rank_list({}).empty());
  CHECK(rank_list({0, 2, 4, 6}, 2) == "0, 2 and 2 more");
  CHECK(rank_list({0, 1, 2, 3, 5}, 2) == "0-3, 5");
  CHECK(ranks_text({3}) == "rank 3");
  CHECK(ranks_text({0, 1, 2}) == "ranks 0-2");
}

TEST_CASE("ranks at one stride are a range", "[ranks]") {
  CHECK(rank_range({4, 12, 20}) == RankRange{4, 8, 3});
  CHECK(rank_range({7}) == RankRange{7, 1, 1});
  CHECK_FALSE(rank_range({}).has_value());
  CHECK_FALSE(rank_range({0, 1, 3}).has_value());
  CHECK_FALSE(rank_range({2, 1, 0}).has_value());
  CHECK_FALSE(rank_range({5, 5}).has_value());
}

}  // namespace am
