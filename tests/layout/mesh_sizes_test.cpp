#include <catch2/catch.hpp>

#include "am/layout/layout.h"
#include "layout/plan_text.h"

namespace {

using am::Diagnostics;
using am::layout::resolve_mesh;
using am::mesh::MeshSizes;
using am::test::ids;
using am::test::plan_of;
using Ids = std::vector<std::string>;

MeshSizes sizes_of(const std::string& text, int64_t world = 0) {
  Diagnostics found;
  const auto sizes = resolve_mesh(plan_of(text), world, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(sizes.has_value());
  return *sizes;
}

am::Diagnostic error_of(const std::string& text, int64_t world = 0) {
  Diagnostics found;
  CHECK_FALSE(resolve_mesh(plan_of(text), world, found).has_value());
  REQUIRE(found.items().size() == 1);
  return found.items()[0];
}

TEST_CASE("data parallelism is what the other axes leave") {
  CHECK(sizes_of("[mesh]\nworld_size = 16\ntp_size = 2\n") == MeshSizes{.dp_shard = 8, .tp = 2});
  CHECK(sizes_of("[mesh]\nworld_size = 32\ntp_size = 2\npp_size = 2\ncp_size = 2\n") ==
        MeshSizes{.pp = 2, .dp_shard = 4, .cp = 2, .tp = 2});
  CHECK(sizes_of("[mesh]\ndp_size = 4\ntp_size = 2\n").world_size() == 8);
  CHECK(sizes_of("[mesh]\nworld_size = 8\ndp_replicate_size = 2\n") ==
        MeshSizes{.dp_replicate = 2, .dp_shard = 4});
  CHECK(sizes_of("[mesh]\nworld_size = 1\n") == MeshSizes{});
}

TEST_CASE("ddp replicates over all of dp") {
  CHECK(sizes_of("[mesh]\nworld_size = 4\n[strategy]\nname = \"ddp\"\n") ==
        MeshSizes{.dp_replicate = 4});
}

TEST_CASE("a launcher's number of ranks counts, and must agree") {
  CHECK(sizes_of("[mesh]\ntp_size = 2\n", 6) == MeshSizes{.dp_shard = 3, .tp = 2});
  CHECK(sizes_of("[mesh]\nworld_size = 6\n", 6).dp_shard == 6);
  CHECK(error_of("[mesh]\nworld_size = 6\n", 8).rule == "mesh.world");
  CHECK(error_of("[mesh]\ntp_size = 2\n").rule == "mesh.world");
}

TEST_CASE("sizes whose product is not the world name the values that would do") {
  const auto product = error_of("[mesh]\nworld_size = 16\ndp_size = 4\ntp_size = 2\n");
  CHECK(product.rule == "mesh.product");
  CHECK(product.span.line == 5);
  CHECK_THAT(product.help, Catch::Contains("dp_size = 8") && Catch::Contains("world_size = 8"));
  const auto divide = error_of("[mesh]\nworld_size = 16\ntp_size = 3\n");
  CHECK(divide.rule == "mesh.divide");
  CHECK(divide.span.line == 5);
  CHECK_THAT(divide.help,
             Catch::Contains("tp_size = 1, 2, 4 or 8") && Catch::Contains("world_size = 15 or 18"));
  CHECK(error_of("[mesh]\nworld_size = 2\ntp_size = 4\n").rule == "mesh.divide");
}

TEST_CASE("replicas must divide dp") {
  const auto uneven = error_of("[mesh]\nworld_size = 8\ndp_replicate_size = 3\n");
  CHECK(uneven.rule == "mesh.replicate");
  CHECK_THAT(uneven.help, Catch::Contains("dp_replicate_size = 1, 2, 4 or 8"));
  // As in torchtitan, dp may consist of replicas only.
  const auto all = sizes_of("[mesh]\nworld_size = 8\ndp_replicate_size = 8\n");
  CHECK(all.dp_replicate == 8);
  CHECK(all.dp_shard == 1);
}

TEST_CASE("experts divide a stage's ranks") {
  CHECK(sizes_of("[mesh]\nworld_size = 8\ntp_size = 2\nep_size = 8\n").ep == 8);
  CHECK(error_of("[mesh]\nworld_size = 8\nep_size = 3\n").rule == "mesh.ep");
  CHECK(error_of("[mesh]\nworld_size = 8\npp_size = 2\nep_size = 8\n").rule == "mesh.ep");
}

TEST_CASE("huge and impossible sizes do not overflow") {
  Diagnostics found;
  auto plan = plan_of("[mesh]\nworld_size = 8\n");
  plan.mesh.tp_size = plan.mesh.cp_size = plan.mesh.pp_size = int64_t{1} << 20;
  CHECK_FALSE(resolve_mesh(plan, 0, found).has_value());
  CHECK(ids(found) == Ids{"mesh.size"});
  Diagnostics negative;
  plan.mesh = {};
  plan.mesh.tp_size = -2;
  plan.mesh.cp_size = 0;
  plan.mesh.pp_size = int64_t{1} << 60;
  CHECK_FALSE(resolve_mesh(plan, 8, negative).has_value());
  CHECK(ids(negative) == Ids{"mesh.size", "mesh.size", "mesh.size"});
}

}  // namespace
