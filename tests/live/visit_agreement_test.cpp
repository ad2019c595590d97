#include "am/live/visit_agreement.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace am::live {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a rank visits at a step that it has accepted") {
  VisitAgreement agreement;
  CHECK_FALSE(agreement.arrive(1));
  CHECK(agreement.propose(3));
  CHECK_FALSE(agreement.arrive(2));
  agreement.decide(3, true);
  CHECK_FALSE(agreement.propose(4));  // the decided visit was not made yet
  REQUIRE(agreement.arrive(3));
  CHECK(agreement.decided());
  CHECK_FALSE(agreement.arrive(4));
}

TEST_CASE("a rank refuses a step that it has passed") {
  VisitAgreement agreement;
  CHECK_FALSE(agreement.arrive(5));
  CHECK_FALSE(agreement.propose(5));
  agreement.decide(5, false);
  CHECK_FALSE(agreement.arrive(6));
}

TEST_CASE("a rank waits at an accepted step until rank 0 has decided") {
  for (const bool visit : {true, false}) {
    VisitAgreement agreement;
    CHECK(agreement.propose(1));
    std::atomic<bool> over = false;
    std::thread rank([&] {
      CHECK(agreement.arrive(1));
      CHECK(agreement.decided() == visit);
      over = true;
    });
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(over);
    agreement.decide(1, visit);
    rank.join();
    CHECK_FALSE(agreement.arrive(2));
  }
}

TEST_CASE("a planned visit needs no proposal, and close() ends a wait") {
  VisitAgreement agreement;
  agreement.plan(2);
  CHECK_FALSE(agreement.arrive(1));
  REQUIRE(agreement.arrive(2));
  CHECK(agreement.decided());
  CHECK(agreement.propose(3));
  std::thread rank([&] {
    CHECK(agreement.arrive(3));
    CHECK_FALSE(agreement.decided());
  });
  std::this_thread::sleep_for(20ms);
  agreement.close();
  rank.join();
  CHECK_FALSE(agreement.propose(9));
}

// Each rank steps at its own speed, at most `kApart` steps ahead of the slowest rank, while visits
// at random steps are proposed.
TEST_CASE("all ranks visit at the same steps") {
  constexpr int kRanks = 4;
  constexpr int64_t kApart = 3;
  constexpr size_t kVisits = 30;
  std::vector<std::unique_ptr<VisitAgreement>> ranks;
  for (int i = 0; i < kRanks; ++i) ranks.push_back(std::make_unique<VisitAgreement>());
  std::vector<std::atomic<int64_t>> at(kRanks);
  std::vector<std::set<int64_t>> visited(kRanks);
  std::atomic<int64_t> last{int64_t{1} << 60};  // the last step of all ranks
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int64_t step = 1; step <= last; ++step) {
        // As in a collective, a rank waits while another rank is too far behind.
        for (int other = 0; other < kRanks; ++other) {
          while (at[other] + kApart < step) std::this_thread::yield();
        }
        at[rank] = step;
        std::this_thread::sleep_for(std::chrono::microseconds(50 + 20 * rank));
        if (ranks[rank]->arrive(step) && ranks[rank]->decided()) visited[rank].insert(step);
      }
      at[rank] = last + kApart;
    });
  }
  std::set<int64_t> agreed;
  std::minstd_rand random(1);
  while (agreed.size() < kVisits) {
    const int64_t step = at[0] + 1 + static_cast<int64_t>(random() % 6);
    bool all = true;
    for (auto& rank : ranks) all = rank->propose(step) && all;
    for (auto& rank : ranks) rank->decide(step, all);
    if (all) agreed.insert(step);
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
  int64_t furthest = *agreed.rbegin();
  for (const auto& each : at) furthest = std::max(furthest, each.load());
  last = furthest + kApart + 1;
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : visited) CHECK(each == agreed);
}

}  // namespace
}  // namespace am::live
