// Tests that the first rank of each node runs before the others: on one node, on two and three, and
// in a process without any launcher variables.
#include "am/compat/first_rank_per_node.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <thread>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/compat/distributed_utils.h"
#include "compat/job.h"
#include "support/rank_check.h"

namespace am::compat {

using job::Logs;
using job::run_job;
using job::run_unjoined;

namespace {

const std::vector<std::vector<int64_t>> kPlaces = {{1},    {2},    {3},       {5},      {1, 1},
                                                   {2, 2}, {3, 2}, {2, 2, 2}, {1, 2, 1}};

// Records the calls of the body in order: the node of the calling rank, and whether this rank is
// the first of its node.
struct Runs {
  std::mutex mutex;
  std::vector<std::pair<int64_t, bool>> order;  // node, first

  void add(const Distributed& dist, bool first) {
    const std::lock_guard lock(mutex);
    order.emplace_back(dist.is_initialized() ? dist.world().environment().node_rank : 0, first);
  }
};

void check_order(const Runs& runs, const std::vector<int64_t>& nodes) {
  int64_t ranks = 0;
  for (const int64_t size : nodes) ranks += size;
  REQUIRE(static_cast<int64_t>(runs.order.size()) == ranks);
  // The first ranks of all nodes, once per node, precede all other ranks.
  std::set<int64_t> seen;
  for (size_t i = 0; i < runs.order.size(); ++i) {
    CHECK(runs.order[i].second == (i < nodes.size()));
    if (runs.order[i].second) seen.insert(runs.order[i].first);
  }
  CHECK(seen.size() == nodes.size());
}

}  // namespace

TEST_CASE("the first rank of every node goes first", "[parity]") {
  for (const auto& nodes : kPlaces) {
    Runs runs;
    run_job(nodes, [&](Distributed& dist) {
      const int64_t value = first_rank_per_node(dist, [&](bool first) {
        runs.add(dist, first);
        return get_rank(dist);
      });
      RANK_CHECK(value == get_rank(dist));
    });
    check_order(runs, nodes);
  }
}

TEST_CASE("over a group its members alone take part", "[parity]") {
  // Ranks 0 and 1 are on node 0, ranks 2 and 3 on node 1. Ranks 1 and 3 form one group, and rank 0
  // alone forms another. Rank 2 takes no part.
  Runs odd;
  std::atomic<int64_t> alone = 0;
  run_job({2, 2}, [&](Distributed& dist) {
    const int64_t rank = get_rank(dist);
    const runtime::World& world = dist.world();
    if (rank == 0) {
      const runtime::Group one = world.new_group("one", {0}, {}, "gloo");
      first_rank_per_node(
          dist, [&](bool first) { alone += first ? 1 : 100; }, std::chrono::minutes(1), &one);
    }
    if (rank % 2 == 0) return;
    const runtime::Group group = world.new_group("odd", {1, 3}, {}, "gloo");
    FirstRankPerNode scope(dist, std::chrono::minutes(1), &group);
    odd.add(dist, scope.is_first());
    scope.leave();
  });
  check_order(odd, {1, 1});
  CHECK(alone == 1);
  // All members of the group are on one node: the member with the lowest rank runs first.
  Runs late;
  run_job({4}, [&](Distributed& dist) {
    if (get_rank(dist) == 0) return;
    const runtime::Group group = dist.world().new_group("late", {1, 2, 3}, {}, "gloo");
    const auto body = FirstRankPerNode::decorate(
        dist,
        [&](bool first) {
          late.add(dist, first);
          return get_rank(dist);
        },
        std::chrono::minutes(1), &group);
    RANK_CHECK(body() == get_rank(dist));
  });
  check_order(late, {3});
}

TEST_CASE("as a scope, as a decorator, and twice", "[parity]") {
  for (const auto& nodes : kPlaces) {
    Runs left, destroyed, decorated;
    run_job(nodes, [&](Distributed& dist) {
      {
        FirstRankPerNode scope(dist);
        left.add(dist, scope.is_first());
        scope.leave();
      }
      {
        const FirstRankPerNode scope(dist);
        destroyed.add(dist, scope.is_first());
      }
      barrier(dist);
      const auto load = FirstRankPerNode::decorate(dist, [&](bool first) {
        decorated.add(dist, first);
        return 5;
      });
      RANK_CHECK(load() == 5);
    });
    check_order(left, nodes);
    check_order(destroyed, nodes);
    check_order(decorated, nodes);
  }
}

TEST_CASE("one process without variables is first", "[parity]") {
  Distributed dist(compat::Variables::of({}));
  const FirstRankPerNode scope(dist);
  CHECK(scope.is_first());
  CHECK_FALSE(is_distributed(dist));
}

TEST_CASE("ranks that have not joined are joined, and leave again", "[parity]") {
  for (const auto& nodes : kPlaces) {
    Runs runs;
    run_unjoined(nodes, [&](Distributed& dist) {
      first_rank_per_node(dist, [&](bool first) { runs.add(dist, first); });
      RANK_CHECK(!is_distributed(dist));
      initialize_distributed(dist, "gloo");
      barrier(dist);
    });
    check_order(runs, nodes);
  }
}

TEST_CASE("a failure of a first rank is everybody's, and no other rank runs the body", "[parity]") {
  for (const auto& nodes : kPlaces) {
    std::atomic<int64_t> others = 0, own = 0, told = 0;
    int64_t ranks = 0;
    for (const int64_t size : nodes) ranks += size;
    run_job(nodes, [&](Distributed& dist) {
      try {
        first_rank_per_node(dist, [&](bool first) {
          if (!first) ++others;
          if (get_rank(dist) == 0) throw std::runtime_error("no such host");
        });
      } catch (const Error& error) {
        const std::string text = error.what();
        told += text.find("rank 0: no such host") != std::string::npos ? 1 : 0;
      } catch (const std::runtime_error& error) {
        own += std::string(error.what()) == "no such host" ? 1 : 0;
      }
    });
    CHECK(others == 0);
    CHECK(own == 1);
    CHECK(told == ranks - 1);
  }
}

TEST_CASE("an exception that passes through a scope is told too", "[parity]") {
  std::atomic<int> told = 0;
  run_job({2, 2}, [&](Distributed& dist) {
    try {
      const FirstRankPerNode scope(dist);
      if (get_rank(dist) == 2) throw std::runtime_error("full disk");
    } catch (const Error& error) {
      told += std::string(error.what()).find("rank 2: the code threw") != std::string::npos ? 1 : 0;
    } catch (const std::runtime_error&) {
      RANK_CHECK(get_rank(dist) == 2);
    }
  });
  CHECK(told == 2);  // ranks 1 and 3; on rank 0, the destructor logs, because it cannot throw
}

TEST_CASE("a failure of another rank is its own affair", "[parity]") {
  std::atomic<int> failed = 0;
  run_job({3}, [&](Distributed& dist) {
    try {
      first_rank_per_node(dist, [&](bool first) {
        if (!first && get_rank(dist) == 1) throw std::runtime_error("mine");
      });
    } catch (const std::runtime_error& error) {
      failed += std::string(error.what()) == "mine" ? 1 : 0;
    }
    barrier(dist);
  });
  CHECK(failed == 1);
}

TEST_CASE("a first rank that takes too long is an error on those that wait") {
  std::atomic<bool> waited = false;
  std::atomic<bool> ran = false;
  run_job({2}, [&](Distributed& dist) {
    try {
      FirstRankPerNode scope(dist, std::chrono::milliseconds(300));
      ran = ran || !scope.is_first();
      while (!waited) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      scope.fail("late");
    } catch (const Error& error) {
      RANK_CHECK(error.kind() == ErrorKind::kPeer && get_rank(dist) == 1);
      waited = true;
    }
  });
  CHECK(waited);
  CHECK_FALSE(ran);
}

}  // namespace am::compat
