#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "am/base/text.h"
#include "am/live/rank_agents.h"
#include "am/live/stack_probe.h"
#include "am/runtime/recent_collectives.h"
#include "support/stand_in_device.h"

namespace am::live {
namespace {

using namespace std::chrono_literals;

// This function is not inlined, so that stack traces contain its name.
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

TEST_CASE("autograd's thread of a device writes its stack down") {
  std::atomic<bool> done = false;
  std::promise<StackProbe*> ready;
  std::thread thread([&] {
    const c10::Device device = test::stand_in_device();
    StackProbe probe(device);
    const at::Tensor leaf = at::ones({2}, device).requires_grad_(true);
    leaf.register_hook([&](const at::Tensor&) {
      ready.set_value(&probe);
      loop_until(done);
    });
    leaf.sum().backward();
  });
  StackProbe& probe = *ready.get_future().get();
  const std::string backward = join(probe.take_of_device(2s), "\n");
  CHECK_THAT(backward, Catch::Contains("Engine::evaluate_function"));
  const std::string waiting = join(probe.take(2s), "\n");
  CHECK_THAT(waiting, Catch::Contains("Engine::execute") && !Catch::Contains("evaluate_function"));
  done = true;
  thread.join();
}

TEST_CASE("a phase is over when the device has come to its end") {
  const c10::Device device = test::stand_in_device(6);
  Status status(device);
  CHECK(status.phase() == std::string("starting"));
  const at::Tensor one = at::ones({2}, device);
  status.phase_over("optimizer");
  status.phase_over("forward");
  CHECK(status.phase() == std::string("starting"));
  const at::Tensor two = one + one;
  status.phase_over("backward");
  CHECK(status.phase() == std::string("starting"));
  CHECK(two.sum().item<double>() == 4.0);  // item() waits for the device
  CHECK(status.phase() == std::string("optimizer"));
  const at::Tensor three = two + one;
  status.phase_over("optimizer");
  CHECK(status.phase() == std::string("optimizer"));
  status.set_phase("between steps");
  CHECK(status.phase() == std::string("between steps"));
  Status of_host(c10::Device(c10::kCPU));
  of_host.phase_over("forward");
  CHECK(of_host.phase() == std::string("backward"));
}

TEST_CASE("a second probe in a process has nothing to say") {
  StackProbe first;
  StackProbe second;
  CHECK(second.take(10ms).empty());
  CHECK_FALSE(first.take(2s).empty());
}

TEST_CASE("a lone rank answers for itself") {
  const auto world = runtime::World::single();
  const auto self = std::make_shared<RankStatus>(world);
  RankAgents helpers(world, self);
  std::promise<Answers> got;
  REQUIRE(helpers.ask({{"what", "collectives"}}, {},
                      [&](const Answers& answers) { got.set_value(answers); }));
  auto future = got.get_future();
  REQUIRE(future.wait_for(5s) == std::future_status::ready);
  const Answers answers = future.get();
  CHECK(answers.silent.empty());
  CHECK(answers.said.at(0).at("memory_bytes").get<int64_t>() > 0);
  CHECK(answers.said.at(0).at("collectives").empty());
  helpers.close();
  REQUIRE(helpers.ask({{"what", "ranks"}}, {}, [](const Answers&) { FAIL("used after close()"); }));
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
