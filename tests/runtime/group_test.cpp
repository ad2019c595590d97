// Tests collectives between ranks in this process, and the groups of a mesh.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/tensor/memory_meter.h"
#include "support/over_gloo.h"
#include "support/rank_check.h"

namespace am::runtime {

TEST_CASE("collectives over three ranks") {
  run_ranks(3, [](const World& world) {
    const Group group = world.make_group("all", {0, 1, 2});
    const auto rank = static_cast<float>(world.rank());

    at::Tensor sum = at::full({2}, rank + 1);
    group.all_reduce(sum);
    RANK_CHECK(at::equal(sum, at::full({2}, 6.0F)));
    at::Tensor most = at::full({1}, rank);
    group.all_reduce(most, ReduceOp::kMax);
    RANK_CHECK(most.item<float>() == 2.0F);

    at::Tensor gathered = at::empty({3, 2});
    group.all_gather(gathered, at::full({2}, rank));
    const at::Tensor wanted = at::tensor({0.F, 0.F, 1.F, 1.F, 2.F, 2.F}).view({3, 2});
    RANK_CHECK(at::equal(gathered, wanted));

    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      at::Tensor mine = at::empty({2}, at::TensorOptions(dtype));
      const at::Tensor parts = at::arange(6, at::TensorOptions(dtype)) + world.rank();
      group.reduce_scatter(mine, parts);
      const auto first = static_cast<float>(6 * world.rank() + 3);
      const at::Tensor expected = at::tensor({first, first + 3});
      RANK_CHECK(at::equal(mine.to(at::kFloat), expected));
    }

    at::Tensor word = at::full({1}, rank);
    group.broadcast(word, 2);
    RANK_CHECK(word.item<float>() == 2.0F);
    const auto texts = group.all_gather_text(std::string(static_cast<size_t>(world.rank()), 'x'));
    const std::vector<std::string> words = {"", "x", "xx"};
    RANK_CHECK(texts == words);
    group.barrier();
  });
}

TEST_CASE("a reduce-scatter of integers is exact") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(3, [&](const World& world) {
    for (const auto dtype : {at::kInt, at::kLong, at::kDouble}) {
      const Group group = world.new_group(cat("all ", dtype), {0, 1, 2}, {world.timeout()});
      constexpr int64_t kLarge = (1 << 24) + 1;  // float32 cannot represent this integer
      at::Tensor mine = at::empty({2}, at::TensorOptions(dtype));
      group.reduce_scatter(mine, at::full({6}, kLarge, at::TensorOptions(dtype)));
      RANK_CHECK(at::equal(mine, at::full({2}, 3 * kLarge, at::TensorOptions(dtype))));
    }
  });
}

// Rank r sends (r + 2 i) % 4 rows to rank i: unequal numbers, some of them zero.
TEST_CASE("rows go to the ranks that they are for, however many") {
  const OverGloo over_gloo(GENERATE(false, true));
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    run_ranks(3, [&](const World& world) {
      const Group group = world.new_group(cat("all ", dtype), {0, 1, 2}, {world.timeout()});
      const auto rows = [](int64_t from, int64_t to) { return (from + 2 * to) % 4; };
      std::vector<int64_t> sent, received;
      std::vector<at::Tensor> in, wanted;
      const auto of = [&](int64_t from, int64_t to) {
        return at::full({rows(from, to), 2}, 10 * from + to, at::TensorOptions(dtype));
      };
      for (int64_t other = 0; other < 3; ++other) {
        sent.push_back(rows(world.rank(), other));
        received.push_back(rows(other, world.rank()));
        in.push_back(of(world.rank(), other));
        wanted.push_back(of(other, world.rank()));
      }
      const at::Tensor expected = at::cat(wanted);
      at::Tensor out = at::empty_like(expected);
      group.all_to_all(out, at::cat(in), received, sent);
      RANK_CHECK(at::equal(out, expected));
    });
  }
}

TEST_CASE("an all-to-all in which only one rank has a row, and one in which nobody has any") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(3, [](const World& world) {
    const Group group = world.make_group("all", {0, 1, 2});
    const bool first = world.rank() == 0;
    const bool last = world.rank() == 2;
    at::Tensor out = at::zeros({last ? 1 : 0, 4});
    group.all_to_all(out, at::ones({first ? 1 : 0, 4}), {last ? 1 : 0, 0, 0},
                     {0, 0, first ? 1 : 0});
    RANK_CHECK(out.numel() == (last ? 4 : 0));
    RANK_CHECK(out.sum().item<float>() == (last ? 4.0F : 0.0F));
    group.all_to_all(at::empty({0, 4}), at::empty({0, 4}), {0, 0, 0}, {0, 0, 0});
    group.barrier();
  });
}

// The wait itself must free the message: if a thread of the backend freed it later, a step would
// need more memory.
TEST_CASE("who waits for a message frees what it carried") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(2, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2}));
    const Group& group = mesh.group("dp_shard");
    const Channels channels = mesh.channels("dp_shard", {{0, 1}, {1, 0}});
    const Hop there{group.index(), 1 - group.index()}, back{1 - group.index(), group.index()};
    const tensor::MemoryMeter meter;
    for (int i = 0; i < 50; ++i) {
      group.all_to_all(at::empty({2, 64}), at::ones({2, 64}), {1, 1}, {1, 1});
      group.rotate(at::empty({64}), at::ones({64}));
      Pending sending = channels.at(there).send(at::ones({64}));
      channels.at(back).receive(at::empty({64})).wait();
      sending.wait();
      sending = {};
      RANK_CHECK(meter.live().total() == 0);
    }
  });
}

TEST_CASE("tensors go round the ring, by any number of places") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(3, [](const World& world) {
    const Group group = world.make_group("all", {0, 1, 2});
    const at::Tensor mine = at::full({2, 2}, world.rank());
    for (const int64_t shift : {-4, -1, 0, 1, 2, 3}) {
      at::Tensor out = at::empty({2, 2}, at::kLong);
      group.rotate(out, mine.to(at::kLong), shift);
      RANK_CHECK(at::equal(out, at::full({2, 2}, ((world.rank() - shift) % 3 + 3) % 3, at::kLong)));
    }
  });
}

TEST_CASE("two meshes of one world do not meet in each other's groups") {
  run_ranks(4, [](const World& world) {
    const DeviceMesh pairs(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
    const DeviceMesh same(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
    const DeviceMesh other(world, mesh::MeshLayout({.dp_replicate = 2, .dp_shard = 2}));
    const auto rank = static_cast<float>(world.rank());
    for (const DeviceMesh* each : {&other, &pairs, &same}) {
      at::Tensor sum = at::full({1}, rank);
      each->group("dp_shard").all_reduce(sum);
      const bool neighbours = each == &other;  // otherwise a group's ranks are two apart
      const float first = neighbours ? rank - static_cast<float>(world.rank() % 2)
                                     : static_cast<float>(world.rank() % 2);
      RANK_CHECK(sum.item<float>() == 2 * first + (neighbours ? 1.0F : 2.0F));
    }
  });
}

TEST_CASE("an unfinished collective is finished by wait, once") {
  run_ranks(2, [](const World& world) {
    const Group group = world.make_group("all", {0, 1});
    at::Tensor out = at::empty({1});
    Pending pending = group.reduce_scatter_async(out, at::ones({2}));
    pending.wait();
    pending.wait();
    RANK_CHECK(out.item<float>() == 2.0F);
    RANK_CHECK(!pending.active());
  });
}

TEST_CASE("a group of one copies, and needs no peers") {
  const Group alone;
  at::Tensor out = at::zeros({2});
  alone.all_gather(out, at::ones({2}));
  CHECK(at::equal(out, at::ones({2})));
  alone.all_to_all(out, at::full({2}, 3.0F), {2}, {2});
  CHECK(at::equal(out, at::full({2}, 3.0F)));
  alone.rotate(out, at::full({2}, 4.0F), 5);
  CHECK(at::equal(out, at::full({2}, 4.0F)));
  alone.barrier();
}

TEST_CASE("the mesh's groups are those of its layout") {
  run_ranks(4, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
    for (const auto name : mesh::kGroupNames) {
      RANK_CHECK(mesh.group(name).ranks() == mesh.layout().group(world.rank(), name));
    }
    at::Tensor sum = at::full({1}, static_cast<float>(world.rank()));
    mesh.group("tp").all_reduce(sum);
    RANK_CHECK(sum.item<float>() == (world.rank() < 2 ? 1.0F : 5.0F));
  });
}

TEST_CASE("two meshes live side by side in one process") {
  run_ranks(2, [](const World& world) {
    const DeviceMesh first(world, mesh::MeshLayout({.dp_shard = 2}));
    const DeviceMesh second(world, mesh::MeshLayout({.tp = 2}));
    RANK_CHECK(first.group("tp").size() == 1);
    RANK_CHECK(second.group("tp").size() == 2);
  });
}

TEST_CASE("a mesh of another size than the world is refused") {
  CHECK_THROWS_AS(DeviceMesh(World::single(), mesh::MeshLayout({.tp = 2})), Error);
}

TEST_CASE("a dtype that the engine does not have is the caller's mistake") {
  run_ranks(2, [](const World& world) {
    try {
      world.group().all_reduce(at::ones({2}, at::kShort));
      RANK_CHECK(false);
    } catch (const Error& error) {
      RANK_CHECK(error.kind() == ErrorKind::kUsage);
    }
    world.group().barrier();
  });
}

TEST_CASE("a peer that never comes is an error that names the group and the peer") {
  const auto body = [](const World& world) {
    if (world.rank() < 2) world.make_group("lonely", {0, 1, 2});
  };
  CHECK_THROWS_WITH(
      run_ranks(4, body, std::chrono::seconds(1)),
      Catch::Contains("rank 2 did not arrive") && Catch::Contains("group lonely; 2 of 3 ranks"));
}

TEST_CASE("a group of all ranks has the world's connections, one of one rank has none") {
  run_ranks(2, [](const World& world) {
    RANK_CHECK(world.make_group("all", {0, 1}).communicator() == world.group().communicator());
    RANK_CHECK(world.make_group("all", {0, 1}).name() == "all");
    RANK_CHECK(world.make_group("me", {world.rank()}).communicator() == nullptr);
    const Group own = world.new_group("own", {0, 1}, {world.timeout()});
    RANK_CHECK(own.communicator() != world.group().communicator());
  });
}

// While one rank is still connecting, the others may already have used and closed the group.
TEST_CASE("a rank may leave a group at once, however late another one connects") {
  run_ranks(4, [](const World& world) {
    for (int round = 0; round < 40; ++round) {
      const std::string name = cat("short ", round);
      const Group group = world.new_group(name, {0, 1, 2, 3}, {world.timeout()});
      const std::string text = group.broadcast_text(world.rank() == 0 ? name : "", 0);
      RANK_CHECK(text == name);
    }
  });
}

}  // namespace am::runtime
