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

}  // namespace am
