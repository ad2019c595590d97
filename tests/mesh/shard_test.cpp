#include "am/mesh/shard.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/mesh/layout.h"

namespace {

using am::Shape;
using am::mesh::Box;
using am::mesh::chunk;
using am::mesh::chunk_length;
using am::mesh::Cut;
using am::mesh::cut_box;
using am::mesh::Extent;
using am::mesh::Placement;

std::vector<int64_t> sizes(int64_t size, int64_t parts) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < parts; ++i) out.push_back(chunk(size, parts, i).size);
  return out;
}

TEST_CASE("chunk is torch.chunk with empty trailing pieces") {
  CHECK(sizes(5, 4) == std::vector<int64_t>{2, 2, 1, 0});
  CHECK(sizes(7, 4) == std::vector<int64_t>{2, 2, 2, 1});
  CHECK(sizes(3, 4) == std::vector<int64_t>{1, 1, 1, 0});
  CHECK(sizes(8, 4) == std::vector<int64_t>{2, 2, 2, 2});
  CHECK(sizes(1, 3) == std::vector<int64_t>{1, 0, 0});
  CHECK(sizes(0, 3) == std::vector<int64_t>{0, 0, 0});
  CHECK(sizes(9, 7) == std::vector<int64_t>{2, 2, 2, 2, 1, 0, 0});
  CHECK(chunk(5, 4, 3) == Extent{5, 0});
  CHECK(chunk(9, 7, 6) == Extent{9, 0});
  CHECK(chunk_length(5, 4) == 2);
}

TEST_CASE("the pieces of a chunk tile the whole") {
  for (int64_t size = 0; size < 40; ++size) {
    for (int64_t parts = 1; parts < 12; ++parts) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Extent piece = chunk(size, parts, i);
        REQUIRE(piece.offset == next);
        REQUIRE(piece.size <= chunk_length(size, parts));
        next += piece.size;
      }
      REQUIRE(next == size);
    }
  }
}

TEST_CASE("tensor parallel cuts first, FSDP cuts what is left") {
  const am::mesh::MeshLayout mesh({.dp_shard = 2, .tp = 2});
  const Shape shape = {10, 3};
  std::vector<Box> boxes;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Cut cuts[] = {{0, 2, mesh.index(rank, "tp")}, {0, 2, mesh.index(rank, "dp_shard")}};
    boxes.push_back(cut_box(shape, cuts));
  }
  CHECK(boxes[0] == Box{{0, 0}, {3, 3}});
  CHECK(boxes[1] == Box{{5, 0}, {3, 3}});
  CHECK(boxes[2] == Box{{3, 0}, {2, 3}});
  CHECK(boxes[3] == Box{{8, 0}, {2, 3}});
}

TEST_CASE("cuts on different dims") {
  const Shape shape = {4, 6};
  const Cut cuts[] = {{1, 2, 1}, {0, 4, 3}};
  CHECK(cut_box(shape, cuts) == Box{{3, 3}, {1, 3}});
  CHECK(cut_box(shape, {}) == Box::whole(shape));
  CHECK(Box::whole(shape).numel() == 24);
}

TEST_CASE("intersection of boxes") {
  const Box a{{0, 0}, {4, 4}};
  CHECK(am::mesh::intersect(a, Box{{2, 3}, {4, 4}}) == Box{{2, 3}, {2, 1}});
  CHECK(am::mesh::intersect(a, a) == a);
  CHECK_FALSE(am::mesh::intersect(a, Box{{4, 0}, {1, 4}}).has_value());
  CHECK_FALSE(am::mesh::intersect(a, Box{{1, 1}, {0, 2}}).has_value());
}

TEST_CASE("placements print as DTensor's do") {
  CHECK(am::mesh::to_string(Placement::replicate()) == "Replicate");
  CHECK(am::mesh::to_string(Placement::shard(1)) == "Shard(1)");
  CHECK(am::mesh::to_string(Placement::partial()) == "Partial(sum)");
}

TEST_CASE("nonsense is a bug, not a shape") {
  CHECK_THROWS_AS(chunk(5, 0, 0), am::Error);
  CHECK_THROWS_AS(chunk(5, 2, 2), am::Error);
  CHECK_THROWS_AS(chunk(-1, 2, 0), am::Error);
  const Shape shape = {4};
  const Cut cuts[] = {{1, 2, 0}};
  CHECK_THROWS_AS(cut_box(shape, cuts), am::Error);
}

}  // namespace
