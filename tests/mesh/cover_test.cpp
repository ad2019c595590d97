#include "am/mesh/cover.h"

#include <catch2/catch.hpp>

using namespace am;
using namespace am::mesh;

namespace {

std::string cover_problem(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<const Box*> parts;
  for (const Box& box : boxes) parts.push_back(&box);
  return why_not_covered(shape, parts).value_or("none");
}

}  // namespace

TEST_CASE("boxes that make up a tensor") {
  CHECK(cover_problem({4, 6}, {{{0, 0}, {4, 6}}}) == "none");
  CHECK(cover_problem({4, 6}, {{{2, 0}, {2, 6}}, {{0, 0}, {2, 6}}}) == "none");
  CHECK(cover_problem({4, 6},
                      {{{0, 0}, {1, 3}}, {{0, 3}, {1, 3}}, {{1, 0}, {3, 3}}, {{1, 3}, {3, 3}}}) ==
        "none");
  CHECK(cover_problem({}, {{{}, {}}}) == "none");
  CHECK(cover_problem({0, 3}, {}) == "none");
  CHECK(cover_problem({2}, {{{0}, {1}}, {{2}, {0}}, {{1}, {1}}}) == "none");
}

TEST_CASE("boxes that do not") {
  CHECK(cover_problem({4}, {{{0}, {2}}}) == "its parts have 2 of its 4 elements");
  CHECK(cover_problem({4}, {}) == "its parts have 0 of its 4 elements");
  CHECK(cover_problem({4}, {{{0}, {3}}, {{2}, {2}}}) ==
        "its parts [3] at [0] and [2] at [2] overlap");
  // The boxes have 4 elements together, like the tensor, but overlap.
  CHECK(cover_problem({2, 2}, {{{0, 0}, {1, 2}}, {{0, 1}, {2, 1}}}) ==
        "its parts [1, 2] at [0, 0] and [2, 1] at [0, 1] overlap");
  CHECK(cover_problem({4}, {{{2}, {3}}}) == "its part [3] at [2] is not inside [4]");
  CHECK(cover_problem({4}, {{{-1}, {2}}}) == "its part [2] at [-1] is not inside [4]");
  CHECK(cover_problem({4}, {{{0, 0}, {4, 1}}}) == "its part [4, 1] at [0, 0] is not inside [4]");
  CHECK(cover_problem({4}, {{{INT64_MAX}, {INT64_MAX}}}).find("is not inside [4]") !=
        std::string::npos);
  CHECK(cover_problem({}, {{{}, {}}, {{}, {}}}) == "it has several parts, but only one element");
  CHECK(cover_problem({2, -1}, {}) == "its shape [2, -1] has a negative size");
  CHECK(cover_problem({INT64_MAX, 3}, {}).find("more than 2^63 elements") != std::string::npos);
}
