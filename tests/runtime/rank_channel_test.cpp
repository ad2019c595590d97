// Tests messages between two ranks, through shared memory and over Gloo: their order, the rank that
// an error names if a message does not arrive, and the connections of a mesh.
#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "am/runtime/channel.h"
#include "am/runtime/collective_error.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/watchdog.h"
#include "am/runtime/world.h"
#include "support/over_gloo.h"
#include "support/rank_check.h"
#include "support/wait_for.h"

namespace am::runtime {

namespace {

using std::chrono::milliseconds;
using test::wait_for;

std::set<Hop> both_ways(int64_t stages) {
  std::set<Hop> hops;
  for (int64_t from = 0; from < stages; ++from) {
    hops.insert({from, (from + 1) % stages});
    hops.insert({(from + 1) % stages, from});
  }
  return hops;
}

}  // namespace

TEST_CASE("messages arrive in the order in which they were sent, in every dtype", "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(2, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 2}));
    const Channels channels = mesh.channels("pp", {{0, 1}});
    const Channel& channel = channels.at({0, 1});
    RANK_CHECK(channel.sends() == (world.rank() == 0));
    RANK_CHECK(channel.peer() == 1 - world.rank());
    std::vector<at::Tensor> tensors;
    std::vector<Pending> pending;
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      for (int i = 0; i < 3; ++i) {
        const auto options = at::TensorOptions(dtype);
        tensors.push_back(world.rank() == 0 ? at::full({2, 3 + i}, i + 1, options)
                                            : at::zeros({2, 3 + i}, options));
        pending.push_back(world.rank() == 0 ? channel.send(tensors.back())
                                            : channel.receive(tensors.back()));
      }
    }
    RANK_CHECK(
        !(world.rank() == 0 ? channel.send(at::empty({0, 4})) : channel.receive(at::empty({0, 4})))
             .active());
    // Waits in reverse order; each message has its own destination tensor.
    for (size_t i = pending.size(); i-- > 0;) pending[i].wait();
    for (size_t i = 0; i < tensors.size(); ++i) {
      RANK_CHECK(at::equal(tensors[i], at::full_like(tensors[i], static_cast<int>(i % 3) + 1)));
    }
  });
}

// Each rank posts its receives before its sends, on all of its channels, and waits for the receives
// first. A blocking connect, or one queue for both directions, would deadlock.
TEST_CASE("a ring of channels in both directions neither connects nor sends in a circle",
          "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  for (const int64_t stages : {2, 3, 4}) {
    run_ranks(stages, [&](const World& world) {
      const DeviceMesh mesh(world, mesh::MeshLayout({.pp = stages}));
      const Channels channels = mesh.channels("pp", both_ways(stages));
      RANK_CHECK(channels.size() == (stages == 2 ? 2U : 4U));
      for (int round = 0; round < 3; ++round) {
        std::vector<std::pair<int64_t, at::Tensor>> received;
        std::vector<Pending> pending;
        for (const auto& [hop, channel] : channels) {
          if (channel.sends()) continue;
          received.emplace_back(channel.peer(), at::zeros({1000}));
          pending.push_back(channel.receive(received.back().second));
        }
        for (const auto& [hop, channel] : channels) {
          if (!channel.sends()) continue;
          pending.push_back(
              channel.send(at::full({1000}, static_cast<float>(10 * round + world.rank()))));
        }
        for (Pending& each : pending) each.wait();
        for (const auto& [peer, tensor] : received) {
          RANK_CHECK(at::equal(tensor, at::full({1000}, static_cast<float>(10 * round + peer))));
        }
      }
    });
  }
}

TEST_CASE("channels lie inside of their pipeline, and two sets of them side by side", "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  run_ranks(4, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 2, .dp_shard = 2}));
    const Channels first = mesh.channels("pp", {{0, 1}});
    const Channels second = mesh.channels("pp", {{0, 1}, {1, 0}});
    const int64_t peer = (world.rank() + 2) % 4;
    RANK_CHECK(first.at({0, 1}).peer() == peer);
    at::Tensor a = at::full({1}, world.rank());
    at::Tensor b = at::full({1}, world.rank() + 10);
    const bool sends = first.at({0, 1}).sends();
    Pending of_b = sends ? second.at({0, 1}).send(b) : second.at({0, 1}).receive(b);
    Pending of_a = sends ? first.at({0, 1}).send(a) : first.at({0, 1}).receive(a);
    of_a.wait();
    of_b.wait();
    RANK_CHECK(a.item<int64_t>() == world.rank() % 2);
    RANK_CHECK(b.item<int64_t>() == world.rank() % 2 + 10);
    RANK_CHECK(DeviceMesh(world, mesh::MeshLayout({.dp_shard = 4})).channels("pp", {}).empty());
  });
}

TEST_CASE("a stage that sends nothing is named, with what it does instead", "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  std::atomic<int> told = 0;
  run_ranks(
      3,
      [&](const World& world) {
        const Watchdog watchdog(world);
        world.progress().set_step(7);
        const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 3}));
        const Channels channels = mesh.channels("pp", {{0, 1}, {1, 2}});
        if (world.rank() == 0) return wait_for(told, 2);
        try {
          // Stage 2 waits for stage 1, which waits for stage 0.
          channels.at({world.rank() - 1, world.rank()}).receive(at::empty({2})).wait();
          RANK_CHECK(false);
        } catch (const CollectiveError& error) {
          const std::string text = error.what();
          RANK_CHECK(error.missing() == std::vector<int64_t>{0});
          RANK_CHECK(text.find("receive pp #1") != std::string::npos);
          RANK_CHECK(text.find("at step 7, in no collective") != std::string::npos);
          ++told;
          wait_for(told, 2);
        }
      },
      milliseconds(1500));
  CHECK(told == 2);
}

TEST_CASE("a stage that goes away fails the one that waits for it, long before the timeout",
          "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  const auto start = std::chrono::steady_clock::now();
  run_ranks(2, [](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 2}));
    const Channels channels = mesh.channels("pp", {{0, 1}});
    if (world.rank() == 0) return;
    try {
      channels.at({0, 1}).receive(at::empty({2})).wait();
      RANK_CHECK(false);
    } catch (const CollectiveError& error) {
      RANK_CHECK(!error.timed_out());
      RANK_CHECK(error.collective().name() == "receive pp #1");
    }
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("an abort ends the wait for a message, and every later one", "[channel]") {
  const OverGloo over_gloo(GENERATE(false, true));
  std::atomic<int> told = 0;
  run_ranks(2, [&](const World& world) {
    const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 2}));
    const Channels channels = mesh.channels("pp", {{0, 1}});
    if (world.rank() == 0) return wait_for(told, 2);
    const Channel& channel = channels.at({0, 1});
    Pending waiting = channel.receive(at::empty({2}));
    std::thread aborts([&] {
      std::this_thread::sleep_for(milliseconds(50));
      world.abort();
    });
    for (int i = 0; i < 2; ++i) {
      try {
        waiting.wait();
        if (i == 1) waiting = channel.receive(at::empty({2}));
      } catch (const CollectiveError& error) {
        RANK_CHECK(std::string(error.what()).find("the group was aborted") != std::string::npos);
        ++told;
      }
    }
    aborts.join();
  });
  CHECK(told == 2);
}

TEST_CASE("a fake mesh has channels too, and their messages are told", "[channel]") {
  const World world = World::fake(1, 3);
  std::vector<std::string> told;
  world.context()->on_collective = [&](const Collective& collective, int64_t bytes) {
    told.push_back(collective.name() + " " + std::to_string(bytes));
  };
  const DeviceMesh mesh(world, mesh::MeshLayout({.pp = 3}), c10::Device(c10::kMeta));
  const Channels channels = mesh.channels("pp", both_ways(3));
  REQUIRE(channels.size() == 4);
  const auto meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  channels.at({0, 1}).receive(at::empty({4}, meta)).wait();
  channels.at({1, 2}).send(at::empty({2}, meta)).wait();
  mesh.group("pp").all_to_all(at::empty({2, 4}, meta), at::empty({3, 4}, meta), {2, 0, 0},
                              {1, 1, 1});
  mesh.group("pp").rotate(at::empty({5}, meta), at::empty({5}, meta));
  CHECK(told == std::vector<std::string>{"receive pp #1 16", "send pp #1 8", "all_to_all pp #1 48",
                                         "rotate pp #2 20"});
}

}  // namespace am::runtime
