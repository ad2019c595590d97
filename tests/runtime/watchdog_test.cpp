// Tests the watchdog: the error of a late collective, and the reaction to a collective that never
// ends.
// ctest: waits
#include "am/runtime/watchdog.h"

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "support/rank_check.h"
#include "support/wait_for.h"

namespace am::runtime {

namespace {

using std::chrono::milliseconds;
using test::wait_for;

// Collective that never ends and needs no communication backend.
class EndlessWork : public c10d::Work {
 public:
  bool isCompleted() override { return false; }
};

}  // namespace

TEST_CASE("a late collective names the rank that did not come, and where that is", "[watchdog]") {
  std::atomic<int> told = 0;
  run_ranks(
      3,
      [&](const World& world) {
        const Watchdog watchdog(world);
        world.progress().set_step(4);
        const Group group = world.make_group("dp", {0, 1, 2});
        group.barrier();
        if (world.rank() == 1) return wait_for(told, 2);
        try {
          group.all_reduce(at::ones({1}));
        } catch (const CollectiveError& error) {
          RANK_CHECK(error.missing() == std::vector<int64_t>{1});
          const std::string text = error.what();
          RANK_CHECK(text.find("all_reduce dp #") != std::string::npos);
          RANK_CHECK(text.find("rank 1 did not arrive; last heard ") != std::string::npos);
          RANK_CHECK(text.find(" ago: at step 4, in no collective") != std::string::npos);
          RANK_CHECK(world.progress().last_collective().find("all_reduce dp #") == 0);
          ++told;
        }
      },
      milliseconds(1500));
  CHECK(told == 2);
}

TEST_CASE("a late all-to-all names the rank that did not come", "[watchdog]") {
  std::atomic<int> told = 0;
  run_ranks(
      2,
      [&](const World& world) {
        const Watchdog watchdog(world);
        const Group group = world.make_group("experts", {0, 1});
        group.barrier();
        if (world.rank() == 1) return wait_for(told, 1);
        try {
          group.all_to_all(at::empty({3}), at::ones({2}), {1, 2}, {1, 1});
        } catch (const CollectiveError& error) {
          RANK_CHECK(error.missing() == std::vector<int64_t>{1});
          RANK_CHECK(error.collective().name().starts_with("all_to_all experts #"));
          ++told;
        }
      },
      milliseconds(1000));
  CHECK(told == 1);
}

TEST_CASE("a rank that waits elsewhere for the culprit is not blamed", "[watchdog]") {
  std::atomic<int> told = 0;
  run_ranks(
      3,
      [&](const World& world) {
        const Watchdog watchdog(world);
        const Group first = world.rank() < 2 ? world.make_group("first", {0, 1}) : Group();
        const Group second = world.rank() > 0 ? world.make_group("second", {1, 2}) : Group();
        world.group().barrier();
        if (world.rank() == 2) return wait_for(told, 2);
        try {
          (world.rank() == 0 ? first : second).all_reduce(at::ones({1}));
        } catch (const CollectiveError& error) {
          // Rank 1 may already have timed out and closed its connections before rank 0 times out.
          RANK_CHECK(error.missing() == std::vector<int64_t>{2});
          ++told;
          wait_for(told, 2);
        }
      },
      milliseconds(1500));
  CHECK(told == 2);
}

TEST_CASE("a collective that nothing ends is reported by the watchdog itself", "[watchdog]") {
  std::atomic<int> stalls = 0;
  run_ranks(
      2,
      [&](const World& world) {
        WatchdogOptions options;
        options.grace = milliseconds(200);
        options.on_stall = [&](const CollectiveError& error) {
          RANK_CHECK(error.timed_out());
          RANK_CHECK(error.collective().name() == "all_gather world #41");
          RANK_CHECK(error.missing() == std::vector<int64_t>{1});
          ++stalls;
        };
        const Watchdog watchdog(world, options);
        if (world.rank() == 0) {
          const Collective endless = {"all_gather", "world", world.group().communicator()->id, 41};
          world.progress().issued(endless);
          world.progress().track(endless, c10::make_intrusive<EndlessWork>(), c10::kCPU);
        }
        wait_for(stalls, 1);
      },
      milliseconds(500));
  CHECK(stalls == 1);
}

TEST_CASE("what a rank failed of reaches those that wait for it", "[watchdog]") {
  std::atomic<int> told = 0;
  run_ranks(
      2,
      [&](const World& world) {
        Watchdog watchdog(world);
        world.group().barrier();
        if (world.rank() == 1) {
          world.progress().set_failed("no space left on device");
          watchdog.publish();
          return wait_for(told, 1);
        }
        try {
          world.group().all_reduce(at::ones({1}));
        } catch (const CollectiveError& error) {
          RANK_CHECK(std::string(error.what()).find("rank 1 failed: no space left on device") !=
                     std::string::npos);
          ++told;
        }
      },
      milliseconds(1000));
  CHECK(told == 1);
}

TEST_CASE("ranks that wait for each other name each other, not themselves", "[watchdog]") {
  std::atomic<int> told = 0;
  run_ranks(
      2,
      [&](const World& world) {
        const Watchdog watchdog(world);
        const Group a = world.new_group("a", {0, 1}, {world.timeout()});
        const Group b = world.new_group("b", {0, 1}, {world.timeout()});
        world.group().barrier();
        try {
          (world.rank() == 0 ? a : b).all_reduce(at::ones({1}));
        } catch (const CollectiveError& error) {
          RANK_CHECK(error.missing() == std::vector<int64_t>{1 - world.rank()});
          RANK_CHECK(std::string(error.what()).find("wait for each other") != std::string::npos);
          ++told;
          wait_for(told, 2);
        }
      },
      milliseconds(1500));
  CHECK(told == 2);
}

TEST_CASE("a wait that timed out while the rank computed has timed out", "[watchdog]") {
  run_ranks(
      2,
      [&](const World& world) {
        world.group().barrier();
        if (world.rank() == 1) return std::this_thread::sleep_for(milliseconds(1500));
        const at::Tensor out = at::empty({2});
        Pending pending = world.group().all_gather_async(out, at::ones({1}));
        std::this_thread::sleep_for(milliseconds(600));
        try {
          pending.wait();
          RANK_CHECK(false);
        } catch (const CollectiveError& error) {
          RANK_CHECK(error.timed_out());
        }
      },
      milliseconds(1000));
}

TEST_CASE("a watchdog that is gone calls nobody", "[watchdog]") {
  std::atomic<int> stalls = 0;
  run_ranks(
      2,
      [&](const World& world) {
        const Collective endless = {"all_gather", "world", world.group().communicator()->id, 41};
        world.progress().wait_begins(endless);
        {
          WatchdogOptions options;
          options.grace = milliseconds(100);
          options.on_stall = [&](const CollectiveError&) { ++stalls; };
          const Watchdog watchdog(world, options);
        }
        std::this_thread::sleep_for(milliseconds(500));
      },
      milliseconds(200));
  CHECK(stalls == 0);
}

TEST_CASE("one rank alone has nothing to watch", "[watchdog]") {
  Watchdog watchdog(World::single());
  watchdog.publish();
}

}  // namespace am::runtime
