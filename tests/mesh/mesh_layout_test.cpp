#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "am/base/error.h"
#include "am/mesh/layout.h"

namespace {

using am::mesh::MeshLayout;
using am::mesh::MeshSizes;
using Groups = std::vector<std::vector<int64_t>>;

TEST_CASE("tp is the fastest axis, then cp, dp_shard, dp_replicate, pp") {
  const MeshLayout mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2});
  CHECK(mesh.world_size() == 32);
  CHECK(mesh.coordinate(1) == std::array<int64_t, 5>{0, 0, 0, 0, 1});
  CHECK(mesh.coordinate(2) == std::array<int64_t, 5>{0, 0, 0, 1, 0});
  CHECK(mesh.coordinate(4) == std::array<int64_t, 5>{0, 0, 1, 0, 0});
  CHECK(mesh.coordinate(8) == std::array<int64_t, 5>{0, 1, 0, 0, 0});
  CHECK(mesh.coordinate(16) == std::array<int64_t, 5>{1, 0, 0, 0, 0});
}

TEST_CASE("groups of two by two") {
  const MeshLayout mesh({.dp_shard = 2, .tp = 2});
  CHECK(mesh.groups("tp") == Groups{{0, 1}, {2, 3}});
  CHECK(mesh.groups("dp_shard") == Groups{{0, 2}, {1, 3}});
  CHECK(mesh.groups("dp") == Groups{{0, 2}, {1, 3}});
  CHECK(mesh.groups("dp_shard_cp") == Groups{{0, 2}, {1, 3}});
  CHECK(mesh.groups("dp_replicate") == Groups{{0}, {1}, {2}, {3}});
  CHECK(mesh.groups("world") == Groups{{0, 1, 2, 3}});
  CHECK(mesh.index(3, "dp_shard") == 1);
  CHECK(mesh.index(3, "world") == 3);
}

TEST_CASE("flattened groups keep their axes' order") {
  // The ranks are numbered row-major in (pp 1, dp_replicate 2, dp_shard 2, cp 2, tp 2).
  const MeshLayout mesh({.dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2});
  CHECK(mesh.group(0, "dp_shard_cp") == std::vector<int64_t>{0, 2, 4, 6});
  CHECK(mesh.group(9, "dp_shard_cp") == std::vector<int64_t>{9, 11, 13, 15});
  CHECK(mesh.group(0, "dp") == std::vector<int64_t>{0, 4, 8, 12});
  CHECK(mesh.group(0, "dp_cp") == std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(mesh.index(13, "dp_shard_cp") == 2);
  CHECK(mesh.index(12, "dp") == 3);
}

TEST_CASE("expert groups are the inner digit of a stage's ranks") {
  const MeshLayout mesh({.pp = 2, .dp_shard = 2, .tp = 2, .ep = 2});
  CHECK(mesh.groups("ep") == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.groups("ep_shard") == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  const MeshLayout all({.dp_shard = 4, .ep = 4});
  CHECK(all.groups("ep") == Groups{{0, 1, 2, 3}});
  CHECK(all.groups("ep_shard") == Groups{{0}, {1}, {2}, {3}});
}

TEST_CASE("etp is the innermost axis of the expert groups") {
  const MeshLayout mesh({.dp_shard = 4, .tp = 2, .ep = 2, .etp = 2});
  CHECK(mesh.groups("etp") == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.groups("ep") == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.groups("ep_shard") == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(mesh.index(5, "ep_shard") == 1);
  CHECK(mesh.index(6, "ep") == 1);
  CHECK_THROWS_WITH(MeshLayout({.dp_shard = 4, .ep = 2, .etp = 4}), Catch::Contains("2 * 4"));
}

TEST_CASE("every kind of group is a partition of the world") {
  for (const MeshSizes& sizes :
       {MeshSizes{},
        MeshSizes{.pp = 3, .dp_replicate = 2, .dp_shard = 5, .cp = 2, .tp = 4, .ep = 8},
        MeshSizes{.dp_shard = 7, .tp = 3, .ep = 3}}) {
    const MeshLayout mesh(sizes);
    std::vector<int64_t> world(static_cast<size_t>(mesh.world_size()));
    std::iota(world.begin(), world.end(), 0);
    for (const auto name : am::mesh::kGroupNames) {
      INFO(std::string(name));
      std::vector<int64_t> seen;
      for (const auto& group : mesh.groups(name)) {
        CHECK(static_cast<int64_t>(group.size()) == mesh.group_size(name));
        for (size_t i = 0; i < group.size(); ++i) {
          CHECK(mesh.index(group[i], name) == static_cast<int64_t>(i));
          CHECK(mesh.group(group[i], name) == group);
          seen.push_back(group[i]);
        }
      }
      std::sort(seen.begin(), seen.end());
      CHECK(seen == world);
    }
    for (const int64_t rank : world) CHECK(mesh.rank(mesh.coordinate(rank)) == rank);
  }
}

TEST_CASE("impossible meshes are refused") {
  CHECK_THROWS_AS(MeshLayout({.tp = 0}), am::Error);
  CHECK_THROWS_AS(MeshLayout({.pp = -1}), am::Error);
  CHECK_THROWS_WITH(MeshLayout({.dp_shard = 4, .ep = 3}), Catch::Contains("ep = 3"));
  const MeshLayout mesh({.dp_shard = 2});
  CHECK_THROWS_AS(mesh.groups("dp_shrd"), am::Error);
  CHECK_THROWS_AS(mesh.coordinate(2), am::Error);
  CHECK_THROWS_AS(mesh.coordinate(-1), am::Error);
}

}  // namespace
