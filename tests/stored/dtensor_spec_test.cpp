#include "am/stored/dtensor_spec.h"

#include <catch2/catch.hpp>
#include <vector>

namespace am::stored {

namespace {

AxisPlacement cut(int64_t dim, int64_t split_factor = 1) { return {true, dim, split_factor}; }

}  // namespace

// The expected orders of the mesh dims are those of DTensorSpec in torch 2.11 for the same
// placements.
TEST_CASE("dims of a mesh cut a tensor in the order of their split factors") {
  struct Case {
    Shape sizes;
    std::vector<AxisPlacement> axes;
    std::vector<size_t> order;
  };
  const std::vector<Case> cases = {
      {{4, 3, 2}, {cut(0), cut(0), cut(0)}, {0, 1, 2}},
      {{4, 3, 2}, {cut(0, 2), cut(0, 2), cut(0)}, {2, 0, 1}},
      {{4, 3, 2}, {cut(0, 6), cut(0, 2), cut(0)}, {2, 1, 0}},
      {{4, 3, 2}, {cut(0), cut(0, 2), cut(0)}, {0, 2, 1}},
      {{4, 3, 2}, {cut(0, 3), cut(0), cut(1)}, {1, 0, 2}},
      {{4, 3, 2}, {cut(1, 2), {}, cut(1)}, {2, 0}},
  };
  for (const Case& each : cases) {
    DTensorSpec spec{{7, 5}, each.sizes, each.axes, {}};
    CHECK(put_in_order(spec) == std::nullopt);
    CHECK(spec.order == each.order);
    CHECK(ranks_of(spec) == 24);
    // The shards of all ranks cover the tensor: each element occurs once per replica.
    int64_t elements = 0;
    for (int64_t a = 0; a < 4; ++a) {
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t c = 0; c < 2; ++c) elements += part_at(spec, {a, b, c}).numel();
      }
    }
    CHECK(elements == 35 * (each.axes[1].shard ? 1 : 3));
  }
}

TEST_CASE("parts of uneven dims: FSDP cuts what tensor parallelism has cut") {
  DTensorSpec spec{{5}, {2, 2}, {cut(0, 2), cut(0)}, {}};
  REQUIRE(put_in_order(spec) == std::nullopt);
  CHECK(part_at(spec, {0, 0}) == mesh::Box{{0}, {2}});
  CHECK(part_at(spec, {1, 0}) == mesh::Box{{2}, {1}});
  CHECK(part_at(spec, {0, 1}) == mesh::Box{{3}, {1}});
  CHECK(part_at(spec, {1, 1}) == mesh::Box{{4}, {1}});
  CHECK(is_on_mesh(spec, {1, 1}));
  CHECK_FALSE(is_on_mesh(spec, {1, 2}));
  CHECK_FALSE(is_on_mesh(spec, {-1, 0}));
  CHECK_FALSE(is_on_mesh(spec, {1}));
}

TEST_CASE("specs that no tensor has") {
  const auto why = [](DTensorSpec spec) { return put_in_order(spec).value_or("nothing"); };
  CHECK(why({{5}, {2}, {cut(1)}, {}}) == "is sharded on dim 1, but has 1 dim");
  CHECK(why({{5}, {2}, {cut(-1)}, {}}) == "is sharded on dim -1, but has 1 dim");
  CHECK(why({{5}, {2, 2}, {cut(0)}, {}}) == "does not have a placement for each dim of its mesh");
  CHECK(why({{5}, {2, 2}, {cut(0, 3), cut(0)}, {}}) ==
        "is a strided shard whose split_factor 3 does not match its mesh");
  CHECK(why({{5}, {0}, {cut(0)}, {}}) == "is on a mesh with a zero or too large size");
  CHECK(why({{-5}, {2}, {cut(0)}, {}}) == "has a shape with a negative or too large size");
  CHECK(why({{int64_t{1} << 40, int64_t{1} << 40, 0}, {2}, {cut(0)}, {}}) ==
        "has a shape with a negative or too large size");
  CHECK(why({{5}, {2, 2}, {cut(0), cut(0)}, {0}}) ==
        "has a shard_order that does not match its placements");
  CHECK(why({{5}, {2, 2}, {cut(0), cut(0)}, {1, 0}}) == "nothing");
}

}  // namespace am::stored
