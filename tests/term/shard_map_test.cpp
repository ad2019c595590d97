#include "am/term/shard_map.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am;
using namespace am::term;

namespace {

std::string map_of(Shape global, std::vector<RankBox> shards) {
  return shard_map(global, shards, Style::plain());
}

}  // namespace

TEST_CASE("ranks that hold the same rows share a line") {
  CHECK(map_of({1024, 256}, {{0, {0, 0}, {512, 256}},
                             {1, {512, 0}, {512, 256}},
                             {4, {0, 0}, {512, 256}},
                             {5, {512, 0}, {512, 256}}}) ==
        "rows 0-511     rank 0, 4\n"
        "rows 512-1023  rank 1, 5\n");
}

TEST_CASE("uneven and empty pieces") {  // torch.chunk of 5 elements into 4 pieces
  CHECK(map_of({5}, {{0, {0}, {2}}, {1, {2}, {2}}, {2, {4}, {1}}, {3, {5}, {0}}}) ==
        "elements 0-1  rank 0\n"
        "elements 2-3  rank 1\n"
        "elements 4    rank 2\n"
        "nothing       rank 3\n");
}

TEST_CASE("what is replicated is whole everywhere") {
  CHECK(map_of({4096}, {{0, {0}, {4096}}, {1, {0}, {4096}}, {2, {0}, {4096}}, {9, {0}, {4096}}}) ==
        "whole  rank 0-2, 9\n");
  CHECK(map_of({}, {{0, {}, {}}}) == "whole  rank 0\n");
  CHECK(map_of({4}, {}).empty());
}

TEST_CASE("columns, and a matrix cut both ways") {
  CHECK(map_of({4, 8}, {{0, {0, 0}, {4, 4}}, {1, {0, 4}, {4, 4}}}) ==
        "columns 0-3  rank 0\n"
        "columns 4-7  rank 1\n");
  CHECK(map_of(
            {4, 8},
            {{0, {0, 0}, {2, 4}}, {1, {0, 4}, {2, 4}}, {2, {2, 0}, {2, 4}}, {3, {2, 4}, {2, 4}}}) ==
        "+------------------------------------+\n"
        "|           columns 0-3  columns 4-7 |\n"
        "| rows 0-1       rank 0       rank 1 |\n"
        "| rows 2-3       rank 2       rank 3 |\n"
        "+------------------------------------+\n");
}

TEST_CASE("parts that form no grid are listed") {
  CHECK(map_of({4, 8}, {{0, {0, 0}, {2, 8}}, {1, {2, 0}, {2, 4}}, {2, {2, 4}, {2, 4}}}) ==
        "rows 0-1, columns 0-7  rank 0\n"
        "rows 2-3, columns 0-3  rank 1\n"
        "rows 2-3, columns 4-7  rank 2\n");
  CHECK(map_of({2, 3, 4}, {{0, {0, 0, 0}, {2, 3, 2}}, {1, {0, 0, 2}, {2, 3, 2}}}) ==
        "dim 2: 0-1  rank 0\n"
        "dim 2: 2-3  rank 1\n");
}

TEST_CASE("shards with other dims are a bug that is caught") {
  CHECK_THROWS_AS(map_of({4, 8}, {{0, {0}, {4}}}), Error);
}
