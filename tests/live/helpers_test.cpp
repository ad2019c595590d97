#include "am/live/helpers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "am/live/stack_probe.h"
#include "am/runtime/recent_collectives.h"

namespace am::live {
namespace {

using namespace std::chrono_literals;

// Not inlined, and with a name that a stack shows.
__attribute__((noinline)) void loop_until(const std::atomic<bool>& done) {
  while (!done) std::this_thread::yield();
}

TEST_CASE("a thread in an endless loop writes its stack down") {
  std::atomic<bool> done = false;
  std::promise<StackProbe*> ready;
  std::thread thread([&] {
    StackProbe probe;
    ready.set_value(&probe);
    loop_until(done);
  });
  StackProbe& probe = *ready.get_future().get();
  for (int i = 0; i < 20; ++i) CHECK(probe.take(2s).size() >= 2);
  done = true;
  thread.join();
}

TEST_CASE("a second probe in a process has nothing to say") {
  StackProbe first;
  StackProbe second;
  CHECK(second.take(10ms).empty());
  CHECK_FALSE(first.take(2s).empty());
}

TEST_CASE("a lone rank answers for itself") {
  const auto world = runtime::World::single();
  const auto self = std::make_shared<RankSelf>(world);
  Helpers helpers(world, self);
  std::promise<Answers> got;
  REQUIRE(helpers.ask("collectives", {}, [&](const Answers& answers) { got.set_value(answers); }));
  auto future = got.get_future();
  REQUIRE(future.wait_for(5s) == std::future_status::ready);
  const Answers answers = future.get();
  CHECK(answers.silent.empty());
  CHECK(answers.said.at(0).at("memory_bytes").get<int64_t>() > 0);
  CHECK(answers.said.at(0).at("collectives").empty());
  helpers.close();
  REQUIRE(helpers.ask("ranks", {}, [](const Answers&) { FAIL("used after close()"); }));
}

TEST_CASE("the last collectives are remembered, the newest first") {
  runtime::RecentCollectives recent;
  auto communicator = std::make_shared<runtime::CommunicatorId>();
  communicator->name = "world";
  runtime::Collective last;
  for (uint64_t i = 1; i <= 100; ++i) {
    last = {"all_reduce", "world", communicator, i};
    recent.add(last, static_cast<int64_t>(8 * i));
  }
  const Json list = recent.to_json(runtime::Progress::Waiting{last, {}});
  REQUIRE(list.size() == runtime::RecentCollectives::kKept);
  CHECK(list[0]["sequence"] == 100);
  CHECK(list[0]["bytes"] == 800);
  CHECK(list[0]["waiting"] == true);
  CHECK(list[1]["sequence"] == 99);
  CHECK(list[1]["waiting"] == false);
  CHECK(recent.to_json({})[0]["waiting"] == false);
}

}  // namespace
}  // namespace am::live
