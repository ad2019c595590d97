// Tests how the ranks of a group determine together why a collective does not end.
#include "am/runtime/inquiry.h"

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "am/runtime/store.h"

namespace am::runtime {

namespace {

using std::chrono::milliseconds;
using Ranks = std::vector<int64_t>;

// Ranks without a communication backend; a test sets the collectives in which they wait.
class HangingRanks {
 public:
  explicit HangingRanks(int64_t size) {
    for (int64_t rank = 0; rank < size; ++rank) {
      contexts_.push_back(std::make_unique<GroupContext>());
      inquiries_.push_back(std::make_unique<Inquiry>(*store, rank, size, *contexts_.back(),
                                                     milliseconds(100), [] { return false; }));
    }
  }

  Inquiry& of(int64_t rank) { return *inquiries_[static_cast<size_t>(rank)]; }
  void wait_in(int64_t rank, const Collective& collective) {
    Progress& progress = contexts_[static_cast<size_t>(rank)]->progress;
    progress.issued(collective);
    progress.wait_begins(collective);
    of(rank).publish();
  }
  Stall explain(int64_t rank, const Collective& collective) {
    return of(rank).explain(collective, true, of(rank).take_place(collective));
  }
  void work(int64_t rank) { of(rank).publish(); }
  std::string state(int64_t rank) { return *store_get(*store, launch::state_key(rank)); }

  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();

 private:
  std::vector<std::unique_ptr<GroupContext>> contexts_;
  std::vector<std::unique_ptr<Inquiry>> inquiries_;
};

Collective collective_of(const std::string& group, Ranks ranks, uint64_t sequence) {
  auto id = std::make_shared<CommunicatorId>();
  id->name = group;
  id->ranks = std::move(ranks);
  id->timeout = milliseconds(1000);
  return {"all_reduce", group, id, sequence};
}

}  // namespace

TEST_CASE("one rank reads the states, and the others its verdict") {
  HangingRanks job(3);
  const Collective world = collective_of("world", {0, 1, 2}, 5);
  job.wait_in(0, world);
  job.work(1);
  job.wait_in(2, world);
  const Stall first = job.explain(2, world);
  CHECK(first.missing == Ranks{1});
  for (const int64_t rank : {0, 1, 2}) job.store->deleteKey(launch::state_key(rank));
  const Stall second = job.explain(0, world);
  CHECK(second.missing == Ranks{1});
  CHECK(second.text == first.text);
}

TEST_CASE("where the rank that asks is gone, the next one takes its place") {
  HangingRanks job(3);
  const Collective world = collective_of("world", {0, 1, 2}, 5);
  job.wait_in(0, world);
  job.work(1);
  job.wait_in(2, world);
  job.store->add("watch/explains/world/5", 1);  // as if rank 2 had taken the first place and died
  const auto start = Inquiry::Clock::now();
  CHECK(job.explain(0, world).missing == Ranks{1});
  CHECK(Inquiry::Clock::now() - start >= store_patience(3));
}

TEST_CASE("a verdict that blames the rank that reads it is not believed") {
  HangingRanks job(3);
  const Collective world = collective_of("world", {0, 1, 2}, 5);
  job.wait_in(0, world);
  job.work(1);
  job.work(2);  // ranks 1 and 2 have not entered the collective
  CHECK(job.explain(0, world).missing == Ranks{1, 2});
  job.wait_in(2, world);
  CHECK(job.explain(2, world).missing == Ranks{1});
}

TEST_CASE("a rank without a past learns from those that watched who fell silent") {
  HangingRanks job(3);
  const Collective world = collective_of("world", {0, 1, 2}, 5);
  job.wait_in(0, world);
  job.wait_in(1, world);  // rank 1 publishes nothing more, as if stopped
  job.wait_in(2, world);
  for (int look = 0; look < 8; ++look) {
    job.of(0).listen(world);
    std::this_thread::sleep_for(milliseconds(100));
    job.of(2).publish();
    job.of(0).publish();
  }
  const Stall stall = job.explain(2, world);
  CHECK(stall.missing == Ranks{1});
  CHECK(stall.text.find("rank 1 gives no sign of life") == 0);
}

TEST_CASE("ranks that wait for each other do not name themselves") {
  HangingRanks job(3);
  const Collective a = collective_of("a", {0, 1, 2}, 3);
  const Collective b = collective_of("b", {0, 1, 2}, 3);
  job.wait_in(0, a);
  job.wait_in(1, a);
  job.wait_in(2, b);
  CHECK(job.explain(0, a).missing == Ranks{1, 2});
  CHECK(job.explain(1, a).missing == Ranks{0, 2});
  CHECK(job.explain(2, b).missing == Ranks{0, 1});
}

TEST_CASE("a state is short, whatever the group, and its list is found") {
  constexpr int64_t kRanks = 2000;
  HangingRanks job(4);
  Ranks regular;
  Ranks odd = {1, 3};
  for (int64_t rank = 0; rank < kRanks; ++rank) regular.push_back(rank);
  for (int64_t rank = 4; odd.size() < 500; rank += 1 + rank % 3) odd.push_back(rank);
  job.wait_in(0, collective_of("flat", regular, 1));
  CHECK(job.state(0).size() < 1024);
  // Rank 0 waits for rank 1, which waits for rank 3 in a group whose ranks have no regular stride.
  const Collective tp = collective_of("tp", {0, 1}, 9);
  job.wait_in(0, tp);
  job.wait_in(1, collective_of("odd", odd, 2));
  CHECK(job.state(1).size() < 1024);
  CHECK(job.state(1).find("\"ranks\"") == std::string::npos);
  const Stall stall = job.explain(0, tp);
  CHECK(stall.missing.size() == odd.size() - 1);
  CHECK(stall.missing.front() == 3);
}

TEST_CASE("many keys are read at once, those that are not there included") {
  HangingRanks job(1);
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) {
    keys.push_back(std::to_string(i));
    if (i % 1000 != 7) store_set(*job.store, keys.back(), keys.back());
  }
  const auto values = store_get_all(*job.store, keys);
  REQUIRE(values.size() == keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK(values[i].has_value() == (i % 1000 != 7));
    if (values[i]) CHECK(*values[i] == keys[i]);
  }
  CHECK(store_get_all(*job.store, {}).empty());
}

}  // namespace am::runtime
