// Tests channels in shared memory: segments and their addresses, waits for peers, peers whose
// process dies, and the task queue.
#include "am/runtime/shared_memory/channel.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/runtime/shared_memory/rounds.h"
#include "am/runtime/shared_memory/task_queue.h"
#include "am/runtime/world.h"
#include "support/message_of.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am::runtime::shared_memory {

namespace {

Channel::Clock::time_point in(std::chrono::milliseconds time) {
  return Channel::Clock::now() + time;
}

}  // namespace

TEST_CASE("one rank that does not want a channel: nobody has one", "[shared_memory]") {
  for (const int64_t unwilling : {-1, 0, 2}) {
    c10d::HashStore store;
    std::atomic<int> channels = 0;
    run_threads(3, [&](int64_t rank) {
      const auto channel = Channel::meet(store, rank, 3, {.wanted = rank != unwilling});
      channels += channel ? 1 : 0;
    });
    CHECK(channels == (unwilling == -1 ? 3 : 0));
  }
}

TEST_CASE("a segment is opened only where it is the same memory", "[shared_memory]") {
  auto made = Segment::create(4096);
  REQUIRE(made);
  const std::string address = made->address();
  auto same = Segment::open(address, 4096);
  REQUIRE(same);
  made->data()[17] = std::byte{42};
  CHECK(same->data()[17] == std::byte{42});
  CHECK_FALSE(Segment::open(address, 8192));  // fails because the size differs
  CHECK_FALSE(Segment::open("another-boot " + address.substr(address.find(' ') + 1), 4096));
  CHECK_FALSE(Segment::open("", 4096));
  made->close_address();
  CHECK_FALSE(Segment::open(address, 4096));
  CHECK(same->data()[17] == std::byte{42});
}

TEST_CASE("an address opens a segment and nothing else", "[shared_memory]") {
  auto made = Segment::create(4096);
  REQUIRE(made);
  const std::string address = made->address();
  const std::string host = address.substr(0, address.rfind(' ') + 1);
  const TemporaryFolder folder;
  const auto victim = folder / "victim";
  write_file_atomically(victim, std::string(4096, 'x'));
  const int file = ::open(victim.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  for (const std::string& name :
       {cat("../..", victim.string()), cat(::getpid(), "/root", victim.string()),
        cat(::getpid(), "/fd/", file), cat("self/fd/", file), cat(::getpid(), "/fd/-1"),
        cat(::getpid(), "/fd//", file), cat(::getpid(), "/fd/", file, "/"), std::string("/fd/"),
        std::string()}) {
    INFO(name);
    CHECK_FALSE(Segment::open(host + name, 4096));
  }
  ::close(file);
  CHECK(Segment::open(address, 4096));
}

TEST_CASE("nobody can take memory from a segment that is in use", "[shared_memory]") {
  auto made = Segment::create(4096);
  REQUIRE(made);
  const std::string address = made->address();
  const std::string file = cat("/proc/", address.substr(address.rfind(' ') + 1));
  CHECK(::truncate(file.c_str(), 0) != 0);
  CHECK(made->data()[4095] == std::byte{0});
}

TEST_CASE("what a peer wrote before a count is there after the wait for it", "[shared_memory]") {
  c10d::HashStore store;
  for (const bool spin : {false, true}) {
    run_threads(2, [&](int64_t rank) {
      const auto channel = Channel::meet(store, rank, 2, {.spin = spin});
      RANK_CHECK(channel != nullptr);
      for (uint32_t i = 1; i != 1000; ++i) {
        // A rank that is one iteration ahead writes to the other slot.
        const uint32_t slot = i % 2;
        channel->set_entry(i, {i + static_cast<uint32_t>(rank), slot});
        std::memset(channel->slot(rank, slot), static_cast<int>(i % 251), 64);
        channel->reach(Count::kShown, i);
        channel->wait_for(1 - rank, Count::kShown, i, in(std::chrono::seconds(20)));
        RANK_CHECK(channel->slot(1 - rank, slot)[63] == std::byte(i % 251));
        RANK_CHECK(channel->entry(1 - rank, i).label == i + static_cast<uint32_t>(1 - rank));
        RANK_CHECK(channel->entry(1 - rank, i).slot == slot);
      }
    });
    store.deleteKey("offer");
    store.deleteKey("answer/1");
    store.deleteKey("decision");
  }
}

TEST_CASE("a peer's process that is killed ends the wait for it", "[shared_memory]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "store").string();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    c10d::FileStore store(file, 2);
    const auto channel = Channel::meet(store, 1, 2, {});
    if (channel) channel->reach(Count::kDone, 1);
    ::raise(SIGKILL);
  }
  c10d::FileStore store(file, 2);
  const auto channel = Channel::meet(store, 0, 2, {});
  REQUIRE(channel);
  const auto wait_for = [&](uint32_t value) {
    channel->wait_for(1, Count::kDone, value, in(std::chrono::seconds(20)));
  };
  wait_for(1);
  // The child has ended, but is a zombie, because this process has not reaped it yet.
  CHECK_THROWS_WITH(wait_for(2), Catch::Contains("the process of rank 1 ended"));
  CHECK_NOTHROW(wait_for(1));
  ::waitpid(child, nullptr, 0);
}

// Rank 1 starts to read only when rank 0 has no free slot.
TEST_CASE("a rank runs ahead by all its slots, and takes the first free one", "[shared_memory]") {
  c10d::HashStore store;
  std::atomic<bool> full = false;
  const auto deadline = [] { return in(std::chrono::seconds(20)); };
  run_threads(2, [&](int64_t rank) {
    const auto channel = Channel::meet(store, rank, 2, {});
    RANK_CHECK(channel != nullptr);
    Rounds rounds(*channel);
    if (rank == 0) {
      for (uint32_t i = 0; i < Channel::kSlots; ++i) {
        RANK_CHECK(rounds.can_write());
        RANK_CHECK(rounds.write(deadline()) == channel->slot(0, i));
        *channel->slot(0, i) = std::byte(i);
        rounds.show(7);
      }
      RANK_CHECK(!rounds.can_write());
      RANK_CHECK(message_of([&] { rounds.write(in({})); }).find("timed out waiting for rank 1") ==
                 0);
      full = true;
      RANK_CHECK(rounds.write(deadline()) == channel->slot(0, 0));
      *channel->slot(0, 0) = std::byte(Channel::kSlots);
      rounds.show(8);
      return channel->wait_for(1, Count::kDone, Channel::kSlots + 1, deadline());
    }
    while (!full) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (uint32_t i = 0; i < Channel::kSlots; ++i) {
      RANK_CHECK(rounds.all_shown());
      RANK_CHECK(*rounds.shown(0, 7, deadline()) == std::byte(i));
      rounds.done();
    }
    RANK_CHECK(message_of([&] {
                 rounds.shown(0, 7, deadline());
               }).find("rank 0 is in another collective") == 0);
    RANK_CHECK(*rounds.shown(0, 8, deadline()) == std::byte(Channel::kSlots));
    rounds.done();
  });
}

TEST_CASE("a task that is waited for at once needs no other thread", "[shared_memory]") {
  std::atomic<int> ran = 0;
  {
    TaskQueue queue;
    for (int i = 0; i < 100; ++i) queue.add(When::kWaitedFor, [&ran] { ++ran; })->wait();
    CHECK(ran == 100);
    // Tasks run in the order in which they were added, even if the first one blocks.
    std::atomic<bool> go = false;
    const auto first = queue.add([&] {
      while (!go) std::this_thread::yield();
      ++ran;
    });
    const auto second = queue.add(When::kWaitedFor, [&ran] { ran = ran * 2; });
    go = true;
    second->wait();
    CHECK(first->isCompleted());
    CHECK(ran == 202);
    // No caller waits for this task. The queue's destructor waits until it has run.
    queue.add(When::kWaitedFor, [&ran] { ++ran; });
  }
  CHECK(ran == 203);
}

// This case occurs in a broadcast, in which only the root publishes data.
TEST_CASE("a peer that is done before anything is shown hides no other that lags",
          "[shared_memory]") {
  c10d::HashStore store;
  run_threads(3, [&](int64_t rank) {
    const auto channel = Channel::meet(store, rank, 3, {});
    RANK_CHECK(channel != nullptr);
    const auto deadline = in(std::chrono::seconds(20));
    if (rank == 1) channel->reach(Count::kDone, 100);
    if (rank != 0) return channel->wait_for(0, Count::kDone, 1, deadline);
    channel->wait_for(1, Count::kDone, 100, deadline);
    Rounds rounds(*channel);
    for (uint32_t i = 0; i < Channel::kSlots; ++i) {
      RANK_CHECK(rounds.write(deadline) == channel->slot(0, i));
      rounds.show(7);
    }
    RANK_CHECK(!rounds.can_write());
    rounds.done();
  });
}

TEST_CASE("a queue runs tasks in order, once, and passes on what they throw", "[shared_memory]") {
  std::vector<int> ran;
  c10::intrusive_ptr<c10d::Work> last;
  {
    TaskQueue queue;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 200; ++i) {
      works.push_back(queue.add([&ran, i] {
        ran.push_back(i);
        if (i == 7) throw std::runtime_error("seven");
      }));
    }
    works[199]->wait();
    CHECK_THROWS_WITH(works[7]->wait(), "seven");
    CHECK_THROWS_WITH(works[7]->wait(), "seven");
    works[8]->wait();
    last = queue.add([&ran] { ran.push_back(200); });
  }
  last->wait();
  REQUIRE(ran.size() == 201);
  for (int i = 0; i <= 200; ++i) CHECK(ran[static_cast<size_t>(i)] == i);
}

}  // namespace am::runtime::shared_memory
