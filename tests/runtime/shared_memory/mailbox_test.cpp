// Tests messages through shared memory: how far a sender can run ahead, which end copies, cancelled
// messages, and errors if the other end is missing. The tests common to all transports are in
// rank_channel_test.cpp.
#include "am/runtime/shared_memory/mailbox.h"

#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "am/runtime/shared_memory/label.h"
#include "am/runtime/world.h"
#include "support/message_of.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

namespace am::runtime::shared_memory {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::wait_for;

constexpr auto kSlot = static_cast<int64_t>(Channel::kSlotBytes);

// Runs both ends of a mailbox, each in a thread; the end with index 0 sends.
void run_pair(const std::function<void(int64_t, const std::shared_ptr<Mailbox>&)>& body,
              milliseconds timeout = seconds(60)) {
  c10d::HashStore store;
  run_threads(2, [&](int64_t index) {
    auto channel = Channel::meet(store, index, 2, {});
    RANK_CHECK(channel != nullptr);
    body(index, std::make_shared<Mailbox>(std::move(channel), timeout));
  });
}

at::Tensor bytes(int64_t count, int64_t seed = 0) {
  return at::arange(count, at::kLong).mul_(7).add_(seed).remainder_(251).to(at::kByte);
}

}  // namespace

TEST_CASE("messages of any size arrive", "[shared_memory]") {
  run_pair([](int64_t index, const auto& mailbox) {
    const auto slots = static_cast<int64_t>(Channel::kSlots);
    for (const int64_t count : {int64_t{1}, int64_t{3}, kSlot - 1, kSlot, kSlot + 1, slots * kSlot,
                                3 * slots * kSlot + 5}) {
      const at::Tensor tensor = index == 0 ? bytes(count) : at::zeros({count}, at::kByte);
      mailbox->post(tensor)->wait();
      RANK_CHECK(at::equal(tensor, bytes(count)));
    }
  });
}

TEST_CASE("a sender is through before its receiver is there", "[shared_memory]") {
  std::atomic<int> sent = 0;
  run_pair([&](int64_t index, const auto& mailbox) {
    if (index == 1) wait_for(sent, 1);
    for (uint32_t i = 0; i < Channel::kSlots; ++i) {
      const at::Tensor tensor = index == 0 ? bytes(kSlot, i) : at::zeros({kSlot}, at::kByte);
      const auto work = mailbox->post(tensor);
      // The send and the receive are complete as soon as they are posted: neither end needs a
      // thread or a wait.
      RANK_CHECK(work->isCompleted());
      RANK_CHECK(at::equal(tensor, bytes(kSlot, i)));
    }
    ++sent;
  });
}

// Each rank posts its receive, then its send, and waits for the send first. The messages fill more
// slots than a channel provides, so the sends end only if the mailboxes' own threads receive.
TEST_CASE("two ranks that send to each other need no wait to move", "[shared_memory]") {
  constexpr int64_t kCount = 3 * static_cast<int64_t>(Channel::kSlots) * kSlot;
  c10d::HashStore forth, back;
  run_threads(2, [&](int64_t index) {
    const auto meet = [&](c10d::Store& store, int64_t end) {
      auto channel = Channel::meet(store, end, 2, {});
      RANK_CHECK(channel != nullptr);
      return std::make_shared<Mailbox>(std::move(channel), seconds(60));
    };
    const auto first = meet(forth, index);
    const auto second = meet(back, 1 - index);
    const auto& sends = index == 0 ? first : second;
    const auto& receives = index == 0 ? second : first;
    const at::Tensor arrived = at::zeros({kCount}, at::kByte);
    const auto receiving = receives->post(arrived);
    sends->post(bytes(kCount, index))->wait();
    receiving->wait();
    RANK_CHECK(at::equal(arrived, bytes(kCount, 1 - index)));
  });
}

TEST_CASE("what is dropped before it began was never posted", "[shared_memory]") {
  std::atomic<int> dropped = 0;
  run_pair([&](int64_t index, const auto& mailbox) {
    if (index == 0) {
      wait_for(dropped, 1);
      mailbox->post(bytes(10))->wait();
      return;
    }
    const at::Tensor first = at::zeros({3}, at::kByte);
    mailbox->post(first).reset();
    ++dropped;
    const at::Tensor second = at::zeros({10}, at::kByte);
    mailbox->post(second)->wait();
    RANK_CHECK(at::equal(second, bytes(10)));
    RANK_CHECK(at::equal(first, at::zeros({3}, at::kByte)));
  });
}

// The sender publishes only the first of the message's two slots.
TEST_CASE("half a message that is given up ends the other half", "[shared_memory]") {
  c10d::HashStore store;
  run_threads(2, [&](int64_t index) {
    auto channel = Channel::meet(store, index, 2, {});
    RANK_CHECK(channel != nullptr);
    const auto deadline = Channel::Clock::now() + seconds(20);
    if (index == 0) {
      Rounds rounds(*channel);
      rounds.write(deadline);
      rounds.show(label_of(Kind::kMessage, static_cast<uint64_t>(at::kByte), 2 * kSlot));
      const auto said = message_of([&] { channel->wait_for(1, Count::kDone, 2, deadline); });
      RANK_CHECK(said == "rank 1 left the group");
      return;
    }
    const auto mailbox = std::make_shared<Mailbox>(std::move(channel), seconds(20));
    const at::Tensor tensor = bytes(2 * kSlot);
    auto work = mailbox->post(tensor);
    while (tensor[1].item<int64_t>() != 0) std::this_thread::yield();
    work.reset();
    RANK_CHECK(!message_of([&] { mailbox->post(tensor); }).empty());
  });
}

TEST_CASE("ends that do not agree on a message say so", "[shared_memory]") {
  run_pair([](int64_t index, const auto& mailbox) {
    if (index == 0) return mailbox->post(bytes(8)), void();
    const auto said = message_of([&] { mailbox->post(at::zeros({4}, at::kByte))->wait(); });
    RANK_CHECK(said ==
               "rank 0 is in another collective: message of 8 bytes of Byte; this rank is in "
               "message of 4 bytes of Byte");
  });
  run_pair([](int64_t index, const auto& mailbox) {
    if (index == 0) return mailbox->post(at::zeros({2}, at::kFloat)), void();
    const auto said = message_of([&] { mailbox->post(at::zeros({1}, at::kDouble))->wait(); });
    RANK_CHECK(said.find("another collective") != std::string::npos);
  });
}

TEST_CASE("the wait for a message has its time, and the message before it has not",
          "[shared_memory]") {
  std::atomic<int> over = 0;
  run_pair(
      [&](int64_t index, const auto& mailbox) {
        if (index == 0) return wait_for(over, 1);
        const auto work = mailbox->post(at::zeros({1}));
        std::this_thread::sleep_for(milliseconds(500));  // longer than the timeout of the mailbox
        const auto start = Channel::Clock::now();
        RANK_CHECK(message_of([&] { work->wait(); }) == "timed out waiting for rank 0");
        RANK_CHECK(Channel::Clock::now() - start > milliseconds(250));
        RANK_CHECK(!message_of([&] { work->wait(); }).empty());
        ++over;
      },
      milliseconds(300));
}

TEST_CASE("what a sender left before it went arrives, and nothing after it", "[shared_memory]") {
  run_pair([&](int64_t index, const auto& mailbox) {
    if (index == 0)
      return mailbox->post(bytes(5))->wait(),
             void();  // then the mailbox of the sender is destroyed
    const at::Tensor tensor = at::zeros({5}, at::kByte);
    std::this_thread::sleep_for(milliseconds(20));
    mailbox->post(tensor)->wait();
    RANK_CHECK(at::equal(tensor, bytes(5)));
    RANK_CHECK(message_of([&] { mailbox->post(tensor)->wait(); }) == "rank 0 left the group");
  });
}

TEST_CASE("a sender whose process is killed ends the wait for its message", "[shared_memory]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "store").string();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    c10d::FileStore store(file, 2);
    auto channel = Channel::meet(store, 0, 2, {});
    if (channel) std::make_shared<Mailbox>(std::move(channel), seconds(20))->post(bytes(5))->wait();
    ::raise(SIGKILL);
  }
  c10d::FileStore store(file, 2);
  auto channel = Channel::meet(store, 1, 2, {});
  REQUIRE(channel);
  const auto mailbox = std::make_shared<Mailbox>(std::move(channel), seconds(20));
  const at::Tensor tensor = at::zeros({5}, at::kByte);
  mailbox->post(tensor)->wait();
  CHECK(at::equal(tensor, bytes(5)));
  const auto said = message_of([&] { mailbox->post(tensor)->wait(); });
  // The child's mailbox may have left the channel before the child ended, so both errors are right.
  CHECK((said == "the process of rank 0 ended" || said == "rank 0 left the group"));
  ::waitpid(child, nullptr, 0);
}

// The post must fail although there are free slots for the message.
TEST_CASE("a receiver whose process is killed ends the next post to it", "[shared_memory]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "store").string();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    c10d::FileStore store(file, 2);
    const auto channel = Channel::meet(store, 1, 2, {});
    ::raise(SIGKILL);
  }
  c10d::FileStore store(file, 2);
  auto channel = Channel::meet(store, 0, 2, {});
  REQUIRE(channel);
  ::waitpid(child, nullptr, 0);
  const auto mailbox = std::make_shared<Mailbox>(std::move(channel), seconds(20));
  CHECK_THROWS_WITH(mailbox->post(bytes(5)), "the process of rank 1 ended");
}

}  // namespace am::runtime::shared_memory
