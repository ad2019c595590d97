// Tests collectives through shared memory: their results, which equal Gloo's, and their errors.
#include "am/runtime/shared_memory/shared_memory_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "am/runtime/world.h"
#include "support/message_of.h"
#include "support/over_gloo.h"
#include "support/rank_check.h"

namespace am::runtime {

namespace {

using shared_memory::SharedMemoryGroup;
using std::chrono::milliseconds;

bool through_memory(const Group& group) {
  return dynamic_cast<SharedMemoryGroup*>(group.communicator()->cpu.get()) != nullptr;
}

// Returns values of both signs that differ between ranks. The values repeat after 101 elements.
at::Tensor values(int64_t numel, at::ScalarType dtype, int64_t rank) {
  at::Tensor all = at::arange(numel, at::kDouble).mul_(37).add_(11 * rank).remainder_(101).sub_(50);
  if (at::isFloatingType(dtype)) all.mul_(0.37);
  return all.to(dtype);
}

// Returns the result of an all-to-all in which row counts differ between ranks, and some are zero.
at::Tensor exchanged(const Group& group, const at::Tensor& row) {
  const auto rows = [&](int64_t from, int64_t to) { return (from + 2 * to) % 3; };
  std::vector<int64_t> sent, received;
  for (int64_t other = 0; other < group.size(); ++other) {
    sent.push_back(rows(group.index(), other));
    received.push_back(rows(other, group.index()));
  }
  const auto sum = [](const std::vector<int64_t>& all) {
    return std::accumulate(all.begin(), all.end(), int64_t{0});
  };
  const at::Tensor in = row.repeat({sum(sent), 1});
  for (int64_t i = 0; i < in.size(0); ++i) in[i].add_(i);
  at::Tensor out = at::zeros({sum(received), row.numel()}, row.options());
  group.all_to_all(out, in, received, sent);
  return out;
}

// Returns the results of each kind of collective on this rank, with `numel` elements per rank.
std::vector<at::Tensor> results(const Group& group, int64_t numel, at::ScalarType dtype) {
  const int64_t size = group.size();
  const at::Tensor mine = values(numel, dtype, group.index());
  std::vector<at::Tensor> found;
  at::Tensor gathered = at::zeros({size * numel}, mine.options());
  group.all_gather(gathered, mine);
  found.push_back(gathered);
  at::Tensor in_place = at::zeros({size, numel}, mine.options());
  in_place[group.index()].copy_(mine);
  group.all_gather(in_place, in_place[group.index()]);
  found.push_back(in_place);
  at::Tensor scattered = at::zeros({numel}, mine.options());
  group.reduce_scatter(scattered, values(size * numel, dtype, group.index()));
  found.push_back(scattered);
  at::Tensor sent = mine.clone();
  group.broadcast(sent, size - 1);
  found.push_back(sent);
  found.push_back(exchanged(group, mine));
  for (const int64_t shift : {1, -1, 2}) {
    at::Tensor arrived = at::zeros({numel}, mine.options());
    group.rotate(arrived, mine, shift);
    found.push_back(arrived);
  }
  for (const auto op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
    at::Tensor reduced = mine.clone();
    group.all_reduce(reduced, op);
    found.push_back(reduced);
  }
  return found;
}

constexpr auto kSlotFloats =
    static_cast<int64_t>(shared_memory::Channel::kSlotBytes / sizeof(float));

using Cases = std::vector<std::pair<int64_t, at::ScalarType>>;

// Returns the results of all cases, indexed by rank, by case and by collective. `wanted`: whether
// the collectives must run through shared memory.
std::vector<std::vector<std::vector<at::Tensor>>> all_results(int64_t size, const Cases& cases,
                                                              bool wanted) {
  std::vector<std::vector<std::vector<at::Tensor>>> found(static_cast<size_t>(size));
  run_ranks(size, [&](const World& world) {
    RANK_CHECK(through_memory(world.group()) == wanted);
    for (const auto& [numel, dtype] : cases) {
      found[static_cast<size_t>(world.rank())].push_back(results(world.group(), numel, dtype));
    }
  });
  return found;
}

}  // namespace

TEST_CASE("through shared memory every collective gives what Gloo gives", "[shared_memory]") {
  const int64_t size = GENERATE(2, 3, 4);
  Cases cases;
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong}) {
    for (const int64_t numel : {0, 1, 7, 513, 4097}) cases.emplace_back(numel, dtype);
  }
  std::mt19937_64 random(static_cast<uint64_t>(size));
  for (int i = 0; i < 6; ++i) {
    cases.emplace_back(std::uniform_int_distribution<int64_t>(1, 40000)(random), at::kFloat);
  }
  cases.emplace_back(kSlotFloats, at::kFloat);
  cases.emplace_back(3 * kSlotFloats + 5, at::kFloat);
  cases.emplace_back(3 * kSlotFloats + 5, at::kBFloat16);
  const auto shared = all_results(size, cases, true);
  std::vector<std::vector<std::vector<at::Tensor>>> gloo;
  {
    const OverGloo over_gloo;
    gloo = all_results(size, cases, false);
  }
  for (size_t rank = 0; rank < shared.size(); ++rank) {
    for (size_t i = 0; i < cases.size(); ++i) {
      INFO("rank " << rank << ", " << cases[i].first << " of " << cases[i].second);
      const auto& ours = shared[rank][i];
      const auto& theirs = gloo[rank][i];
      for (size_t kind = 0; kind + 1 < ours.size(); ++kind) {
        INFO("collective " << kind);
        CHECK(at::equal(ours[kind], theirs[kind]));
      }
      // With more than two ranks, Gloo's sums differ: Gloo adds in another order, and in the dtype
      // of the tensor.
      const at::Tensor &sum = ours.back(), &other = theirs.back();
      const double tolerance = cases[i].second == at::kBFloat16 ? 0.02 : 2e-3;
      CHECK((size == 2 ? at::equal(sum, other) : at::allclose(sum, other, tolerance, 0.3)));
      // The results have the same bits on all ranks.
      CHECK(at::equal(sum, shared[0][i].back()));
    }
  }
}

TEST_CASE("a sum through shared memory runs in index order", "[shared_memory]") {
  run_ranks(4, [](const World& world) {
    // In index order the sum is 0.5. Most other orders yield another sum, because 1e8 absorbs small
    // values that are added to it.
    const std::vector<float> parts = {1.0F, 1e8F, -1e8F, 0.5F};
    const auto rank = static_cast<size_t>(world.rank());
    for (const int64_t numel : {1L, 3L, 2 * kSlotFloats + 1}) {
      at::Tensor sum = at::full({numel}, parts[rank]);
      world.group().all_reduce(sum);
      RANK_CHECK(at::equal(sum, at::full({numel}, 0.5F)));
      at::Tensor own = at::empty({numel});
      world.group().reduce_scatter(own, at::full({4 * numel}, parts[rank]));
      RANK_CHECK(at::equal(own, at::full({numel}, 0.5F)));
    }
  });
}

TEST_CASE("many collectives of several groups are under way at once", "[shared_memory]") {
  run_ranks(4, [](const World& world) {
    const int64_t rank = world.rank();
    const auto named = [&](const char* name, int64_t first, int64_t second) {
      return world.make_group(name + std::to_string(first), {first, second});
    };
    const Group pair = rank < 2 ? named("pair/", 0, 1) : named("pair/", 2, 3);
    const Group stride = named("stride/", rank % 2, rank % 2 + 2);
    RANK_CHECK(through_memory(pair) && through_memory(stride));
    std::vector<Pending> pending;
    std::vector<at::Tensor> sums, outs, turned;
    for (int64_t i = 0; i < 50; ++i) {
      sums.push_back(at::full({1 + 997 * i}, static_cast<float>(rank + i)));
      pending.push_back(pair.all_reduce_async(sums.back()));
      outs.push_back(at::empty({2, 1 + 997 * i}));
      pending.push_back(stride.all_gather_async(outs.back(), at::full({1 + 997 * i}, 1.0F * rank)));
      if (i % 7 == 3) world.group().barrier();
      turned.push_back(at::empty({1 + 997 * i}));
      pending.push_back(
          world.group().rotate_async(turned.back(), at::full({1 + 997 * i}, 1.0F * rank)));
    }
    // Waits for the collectives in reverse order.
    std::reverse(pending.begin(), pending.end());
    for (auto& each : pending) each.wait();
    for (int64_t i = 0; i < 50; ++i) {
      const auto n = static_cast<size_t>(i);
      const auto sum = static_cast<float>((rank < 2 ? 1 : 5) + 2 * i);
      RANK_CHECK(at::equal(sums[n], at::full_like(sums[n], sum)));
      RANK_CHECK(at::equal(turned[n], at::full_like(turned[n], (rank + 3) % 4)));
      RANK_CHECK(outs[n][0][0].item<float>() == static_cast<float>(rank % 2));
      RANK_CHECK(outs[n][1][-1].item<float>() == static_cast<float>(rank % 2 + 2));
    }
  });
}

// A rank for which no other rank waits falls behind by more broadcasts than there are slots.
TEST_CASE("broadcasts of changing roots, among ranks that lag, arrive whole", "[shared_memory]") {
  run_ranks(4, [](const World& world) {
    std::mt19937_64 random(static_cast<uint64_t>(world.rank()));
    for (int64_t i = 0; i < 300; ++i) {
      const int64_t root = i / 7 % 4;
      const int64_t numel = i % 50 == 49 ? 3 * kSlotFloats : 100;
      if (random() % 16 == 0) std::this_thread::sleep_for(milliseconds(random() % 3));
      at::Tensor word = at::full({numel}, static_cast<float>(world.rank() == root ? i : -1));
      world.group().broadcast(word, root);
      RANK_CHECK(at::equal(word, at::full({numel}, static_cast<float>(i))));
      if (i % 40 != 39) continue;
      at::Tensor turned = at::empty({10});
      world.group().rotate(turned, at::full({10}, static_cast<float>(world.rank())));
      RANK_CHECK(turned[9].item<int64_t>() == (world.rank() + 3) % 4);
    }
  });
}

TEST_CASE("what shared memory does not do is Gloo's, in the same group", "[shared_memory]") {
  run_ranks(2, [](const World& world) {
    const Group& group = world.group();
    const float rank = static_cast<float>(world.rank());
    at::Tensor product = at::full({3}, rank + 2);
    group.all_reduce(product, ReduceOp::kProduct);
    RANK_CHECK(at::equal(product, at::full({3}, 6.0F)));
    at::Tensor bytes = at::full({3}, world.rank() + 1, at::kByte);
    group.all_reduce(bytes);
    RANK_CHECK(at::equal(bytes, at::full({3}, 3, at::kByte)));
    at::Tensor integers = at::empty({1}, at::kLong);
    group.reduce_scatter(integers, at::tensor({1, 2}, at::kLong));
    RANK_CHECK(integers.item<int64_t>() == 2 * (world.rank() + 1));
    group.monitored_barrier(std::chrono::seconds(10));
  });
}

TEST_CASE("a rank that is ahead of its peers waits for them, and nothing is overwritten",
          "[shared_memory]") {
  const int64_t size = GENERATE(2, 3);
  run_ranks(size, [&](const World& world) {
    for (int64_t turn = 0; turn < 6; ++turn) {
      // In each turn another rank is late, and the tensors are larger than all slots of a rank.
      if (turn % size == world.rank()) std::this_thread::sleep_for(milliseconds(30));
      at::Tensor sum = at::full({11 * kSlotFloats + 5}, static_cast<float>(world.rank() + turn));
      at::Tensor all = at::empty({size, 9 * kSlotFloats});
      at::Tensor own = at::empty({3 * kSlotFloats});
      const at::Tensor mine = at::full({9 * kSlotFloats}, static_cast<float>(turn - world.rank()));
      Pending first = world.group().all_reduce_async(sum);
      Pending second = world.group().all_gather_async(all, mine);
      world.group().reduce_scatter(own, at::ones({size * 3 * kSlotFloats}));
      first.wait();
      second.wait();
      const auto ranks = static_cast<float>(size);
      const auto turns = static_cast<float>(turn);
      RANK_CHECK(sum.eq(ranks * turns + ranks * (ranks - 1) / 2).all().item<bool>());
      for (int64_t rank = 0; rank < size; ++rank) {
        RANK_CHECK(all[rank].eq(static_cast<float>(turn - rank)).all().item<bool>());
      }
      RANK_CHECK(own.eq(ranks).all().item<bool>());
    }
  });
}

TEST_CASE("non-contiguous tensors are treated alike on both ways", "[shared_memory]") {
  const auto outcome = [] {
    std::string text;
    run_ranks(2, [&](const World& world) {
      const at::Tensor strided = at::ones({4, 2}).t();
      const auto reduce = message_of([&] { world.group().all_reduce(strided); });
      const auto gather = message_of([&] {
        world.group().all_gather(at::empty({4, 4}).t(), strided);
      });
      if (world.rank() == 0)
        text = reduce + "|" + gather + "|" + std::to_string(strided[0][0].item<float>());
    });
    return text;
  };
  const std::string shared = outcome();
  const OverGloo over_gloo;
  CHECK(shared == outcome());
}

TEST_CASE("a peer that goes away or never comes ends a wait through memory", "[shared_memory]") {
  run_ranks(
      2,
      [](const World& world) {
        world.group().barrier();
        if (world.rank() == 1) return;  // destroys the group on rank 1
        const auto start = Progress::Clock::now();
        const auto said = message_of([&] { world.group().all_reduce(at::ones({8})); });
        RANK_CHECK(said.find("rank 1 left the group") != std::string::npos);
        RANK_CHECK(Progress::Clock::now() - start < std::chrono::seconds(20));
        // After one failed collective, later ones must fail too.
        RANK_CHECK(!message_of([&] { world.group().barrier(); }).empty());
      },
      std::chrono::seconds(30));
  std::atomic<bool> told = false;
  run_ranks(
      2,
      [&](const World& world) {
        world.group().barrier();
        while (world.rank() == 1 && !told) std::this_thread::sleep_for(milliseconds(5));
        if (world.rank() == 1) return;
        try {
          world.group().all_gather(at::empty({2}), at::ones({1}));
        } catch (const CollectiveError& error) {
          RANK_CHECK(error.timed_out());
          told = true;
        }
        RANK_CHECK(told);
      },
      milliseconds(400));
}

TEST_CASE("an abort ends this rank's waits, and those for this rank", "[shared_memory]") {
  std::atomic<bool> told = false;
  std::atomic<bool> heard = false;
  run_ranks(2, [&](const World& world) {
    const Group other = world.new_group("other", {0, 1}, {world.timeout()});
    world.group().barrier();
    if (world.rank() == 0) {
      Pending pending = other.all_reduce_async(at::ones({8}));
      std::thread aborts([&] {
        std::this_thread::sleep_for(milliseconds(100));
        world.abort();
      });
      const auto said = message_of([&] { pending.wait(); });
      aborts.join();
      heard = true;
      RANK_CHECK(said.find("the group was aborted") != std::string::npos);
      while (!told) std::this_thread::sleep_for(milliseconds(5));  // keeps the connections open
    } else {
      const auto said = message_of([&] { world.group().all_reduce(at::ones({8})); });
      told = true;
      RANK_CHECK(said.find("rank 0 left the group") != std::string::npos);
      while (!heard)
        std::this_thread::sleep_for(
            milliseconds(5));  // otherwise rank 0 would detect the end of this rank
    }
  });
}

// At least one rank reports the mismatch. The other rank also reports the mismatch, or reports that
// its peer left, or has already finished.
TEST_CASE("ranks that are in different collectives say so", "[shared_memory]") {
  const auto check = [](const std::function<void(const World&)>& call, const std::string& what) {
    std::atomic<int> told = 0;
    run_ranks(2, [&](const World& world) {
      const auto said = message_of([&] { call(world); });
      if (said.find(what) != std::string::npos) {
        ++told;
      } else {
        RANK_CHECK(said.empty() || said.find("left") != std::string::npos);
      }
    });
    CHECK(told > 0);
  };
  check([](const World& world) { world.group().all_reduce(at::ones({4 + world.rank()})); },
        "another collective");
  check(
      [](const World& world) {
        if (world.rank() == 0) return world.group().all_reduce(at::ones({2}));
        world.group().all_to_all(at::empty({2}), at::ones({2}), {1, 1}, {1, 1});
      },
      "all_to_all of elements of 4 bytes");
  check(
      [](const World& world) {
        const auto options = at::TensorOptions(world.rank() == 0 ? at::kFloat : at::kDouble);
        world.group().rotate(at::empty({2}, options), at::ones({2}, options));
      },
      "all_to_all of elements of");
  check(
      [](const World& world) {
        const int64_t rows = 1 + world.rank();  // rank 1 sends more than rank 0 expects
        world.group().all_to_all(at::empty({2}), at::ones({1 + rows}), {1, 1}, {rows, 1});
      },
      "all_to_all: rank 1 sends 8 bytes to this rank, which expects 4");
}

TEST_CASE("shared memory has no name that could be left behind", "[shared_memory]") {
  const auto names = [] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      if (entry.path().string().find("automesh") != std::string::npos)
        found.push_back(entry.path());
    }
    return found;
  };
  run_ranks(2, [&](const World& world) {
    at::Tensor sum = at::ones({1000});
    world.group().all_reduce(sum);
    RANK_CHECK(names().empty());
  });
}

}  // namespace am::runtime
