// Tests the counterpart of OLMo-core's distributed.utils in jobs of 1 to 5 ranks, with ordinary and
// edge inputs: results equal OLMo-core's, or the corrected ones documented in distributed_utils.h.
#include "am/compat/distributed_utils.h"

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "am/base/error.h"
#include "am/base/host.h"
#include "compat/job.h"
#include "support/rank_check.h"

namespace am::compat {

using job::run_job;
using job::run_unjoined;

namespace {

constexpr int64_t kMostRanks = 5;

// Returns a group of the even ranks; nullopt on the odd ranks.
std::optional<runtime::Group> even_ranks(const Distributed& dist) {
  const runtime::World& world = dist.world();
  if (world.rank() % 2 != 0) return std::nullopt;
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < world.size(); rank += 2) ranks.push_back(rank);
  return world.make_group("even", ranks);
}

template <typename Call>
bool throws_usage(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage;
  }
  return false;
}

}  // namespace

TEST_CASE("outside a job every function answers for one rank", "[parity]") {
  Distributed dist(compat::Variables::of({{"LOCAL_RANK", "3"}, {"WORLD_SIZE", "8"}}));
  CHECK_FALSE(is_distributed(dist));
  CHECK(get_rank(dist) == 0);
  CHECK(get_world_size(dist) == 1);
  CHECK(get_local_rank(dist) == 0);
  CHECK(get_fs_local_rank(dist) == 0);
  CHECK(get_local_world_size(dist) == 1);
  CHECK(get_num_nodes(dist) == 1);
  CHECK(get_node_hostname(dist) == host_name());
  dist.variables().set("BEAKER_NODE_HOSTNAME", "jupiter-7");
  CHECK(get_node_hostname(dist) == "jupiter-7");
  CHECK(get_global_rank(dist, 5) == 5);
  CHECK(synchronize_value(dist, 7) == 7);
  CHECK(synchronize_flag(dist, true));
  CHECK(all_reduce_value(dist, 2.5) == 2.5);
  CHECK(broadcast_object(dist, {{"a", 1}}) == Json({{"a", 1}}));
  CHECK(all_gather_object(dist, "x") == std::vector<Json>{"x"});
  const at::Tensor tensor = at::ones({2});
  CHECK(all_gather(dist, tensor).at(0).is_same(tensor));
  CHECK(backend_supports_cpu(dist));
  barrier(dist);
  validate_env_vars(dist);
  CHECK(do_n_at_a_time(dist, [] { return 4; }) == 4);
}

TEST_CASE("ranks, sizes and nodes", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = dist.world().rank();
      RANK_CHECK(is_distributed(dist));
      RANK_CHECK(get_rank(dist) == rank);
      RANK_CHECK(get_world_size(dist) == size);
      RANK_CHECK(get_local_rank(dist) == rank);
      RANK_CHECK(get_local_world_size(dist) == size);
      RANK_CHECK(get_num_nodes(dist) == 1);
      RANK_CHECK(get_global_rank(dist, rank) == rank);
      RANK_CHECK(get_fs_local_rank(dist) == rank);
      barrier(dist);
      if (const auto even = even_ranks(dist)) {
        RANK_CHECK(get_rank(dist, &*even) == rank / 2);
        RANK_CHECK(get_world_size(dist, &*even) == (size + 1) / 2);
        RANK_CHECK(get_global_rank(dist, rank / 2, &*even) == rank);
        RANK_CHECK(throws_usage([&] { get_global_rank(dist, size, &*even); }));
        barrier(dist, &*even);
      }
    });
  }
}

TEST_CASE("nodes: local ranks, file systems, and the number of nodes", "[parity]") {
  for (const std::vector<int64_t>& nodes :
       {std::vector<int64_t>{2, 2}, {1, 1, 1}, {2, 2, 1}, {1, 1}}) {
    run_job(nodes, [&](Distributed& dist) {
      const auto& here = dist.world().environment();
      RANK_CHECK(get_local_rank(dist) == here.local_rank);
      RANK_CHECK(get_fs_local_rank(dist) == here.local_rank);
      dist.variables().set("OLMO_SHARED_FS", "1");
      RANK_CHECK(get_fs_local_rank(dist) == here.rank);
      dist.variables().set("FS_LOCAL_RANK", "7");
      RANK_CHECK(get_fs_local_rank(dist) == 7);
      dist.variables().set("OLMO_SHARED_FS", "0");
      RANK_CHECK(get_fs_local_rank(dist) == 7);
      dist.variables().set("FS_LOCAL_RANK", "");
      RANK_CHECK(get_fs_local_rank(dist) == here.local_rank);
      // The number of nodes follows from LOCAL_WORLD_SIZE, and includes a smaller last node.
      // (OLMo-core omits this node.)
      if (here.local_world_size == nodes.front()) {
        RANK_CHECK(get_num_nodes(dist) == static_cast<int64_t>(nodes.size()));
      }
      dist.variables().set("NUM_NODES", "9");
      RANK_CHECK(get_num_nodes(dist) == 9);
    });
  }
}

TEST_CASE("variables that are missing or no numbers are named", "[parity]") {
  run_unjoined({1}, [](Distributed& dist) {
    dist.variables() = compat::Variables::of({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
    dist.join({.backend = "gloo"});
    CHECK_THROWS_WITH(validate_env_vars(dist), Catch::Contains("LOCAL_RANK"));
    dist.variables().set("LOCAL_RANK", "0");
    CHECK_THROWS_WITH(validate_env_vars(dist), Catch::Contains("NUM_NODES or LOCAL_WORLD_SIZE"));
    CHECK_THROWS_WITH(get_local_world_size(dist), Catch::Contains("LOCAL_WORLD_SIZE"));
    dist.variables().set("NUM_NODES", "1");
    validate_env_vars(dist);
    dist.variables().set("LOCAL_RANK", "first");
    CHECK_THROWS_WITH(get_local_rank(dist), Catch::Contains("LOCAL_RANK=first"));
  });
}

TEST_CASE("values are synchronised from a rank of the job, exactly", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = get_rank(dist);
      const int64_t last = size - 1;
      RANK_CHECK(synchronize_value(dist, rank + 10, last) == last + 10);
      RANK_CHECK(synchronize_value(dist, int64_t{1} << 62) == int64_t{1} << 62);
      // Doubles keep their precision. (OLMo-core rounds them to float32.)
      RANK_CHECK(synchronize_value(dist, rank == 0 ? 0.1 : 5.0) == 0.1);
      RANK_CHECK(synchronize_value(dist, rank == last, last));
      RANK_CHECK(!synchronize_flag(dist, rank > 0));
      const at::Tensor mine = at::full({2, 3}, static_cast<float>(rank));
      RANK_CHECK(at::equal(synchronize_value(dist, mine, last), at::full({2, 3}, float(last))));
      RANK_CHECK(at::equal(mine, at::full({2, 3}, static_cast<float>(rank))));  // unchanged
      RANK_CHECK(synchronize_value(dist, at::empty({0})).numel() == 0);
      const at::Tensor turned = at::arange(6).view({2, 3}).t() + rank;  // not contiguous
      RANK_CHECK(at::equal(synchronize_value(dist, turned), at::arange(6).view({2, 3}).t()));
      RANK_CHECK(throws_usage([&] { synchronize_value(dist, 1, size); }));
      if (const auto even = even_ranks(dist); even && size > 2) {
        RANK_CHECK(synchronize_value(dist, rank, 2, &*even) == 2);  // 2 is the rank in the job
        RANK_CHECK(throws_usage([&] { synchronize_value(dist, 1, 1, &*even); }));
      }
    });
  }
}

TEST_CASE("values are reduced with every operator", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = get_rank(dist);
      int64_t factorial = 1;
      for (int64_t i = 1; i <= size; ++i) factorial *= i;
      const int64_t sum = size * (size - 1) / 2;
      RANK_CHECK(all_reduce_value(dist, rank) == sum);
      RANK_CHECK(all_reduce_value(dist, 0.1 * static_cast<double>(rank), runtime::ReduceOp::kMax) ==
                 0.1 * static_cast<double>(size - 1));
      RANK_CHECK(all_reduce_value(dist, rank, runtime::ReduceOp::kMin) == 0);
      RANK_CHECK(all_reduce_value(dist, rank + 1, runtime::ReduceOp::kProduct) == factorial);
      RANK_CHECK(all_reduce_value(dist, static_cast<double>(rank), runtime::ReduceOp::kAvg) ==
                 static_cast<double>(sum) / static_cast<double>(size));
      RANK_CHECK(all_reduce_value(dist, int64_t{1} << rank, runtime::ReduceOp::kBor) ==
                 (int64_t{1} << size) - 1);
      RANK_CHECK(all_reduce_value(dist, rank, runtime::ReduceOp::kBand) == 0);
      RANK_CHECK(all_reduce_value(dist, int64_t{1}, runtime::ReduceOp::kBxor) == size % 2);
      RANK_CHECK(throws_usage([&] { all_reduce_value(dist, 1, runtime::ReduceOp::kAvg); }));
      RANK_CHECK(all_reduce_value(dist, rank == 0));
      const at::Tensor mine = at::ones({3}, at::kBFloat16);
      const at::Tensor reduced = all_reduce_value(dist, mine);
      RANK_CHECK(at::equal(reduced, mine * size) && at::equal(mine, at::ones_like(mine)));
    });
  }
}

TEST_CASE("objects and bytes reach every rank", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = get_rank(dist);
      const Json object = {{"rank", rank}, {"text", "é\n"}, {"none", nullptr}, {"list", {1, 2.5}}};
      const Json received = broadcast_object(dist, object, size - 1);
      RANK_CHECK(received.at("rank") == size - 1 && received.at("text") == "é\n");
      const auto all = all_gather_object(dist, {rank, std::string(static_cast<size_t>(rank), 'x')});
      for (int64_t r = 0; r < size; ++r) {
        const Json wanted = {r, std::string(static_cast<size_t>(r), 'x')};
        RANK_CHECK(all.at(static_cast<size_t>(r)) == wanted);
      }
      RANK_CHECK(broadcast_object(dist, nullptr).is_null());
      const std::string bytes = {'\0', '\xff', 'a', '\0'};
      RANK_CHECK(broadcast_bytes(dist, rank == 0 ? bytes : "mine") == bytes);
      RANK_CHECK(broadcast_bytes(dist, "").empty());
    });
  }
}

TEST_CASE("an object that is no text is an error on every rank, and nobody waits") {
  run_job({2}, [](Distributed& dist) {
    const Json bad = get_rank(dist) == 0 ? Json("\xff") : Json("fine");
    RANK_CHECK(throws_usage([&] { broadcast_object(dist, bad, 0); }));
    RANK_CHECK(broadcast_object(dist, bad, 1) == "fine");
    RANK_CHECK(throws_usage([&] { all_gather_object(dist, bad); }));
  });
}

TEST_CASE("tensors of any shapes are gathered", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = get_rank(dist);
      // Tensors of equal shapes, of different lengths (one is empty), and of different numbers of
      // dims.
      const auto even = all_gather(dist, at::full({2, 2}, rank));
      const auto uneven = all_gather(dist, at::arange(rank * 3).view({rank, 3}));
      const auto dims = all_gather(dist, rank == 0 ? at::scalar_tensor(5.0) : at::ones({1, rank}));
      RANK_CHECK(static_cast<int64_t>(even.size()) == size);
      for (int64_t r = 0; r < size; ++r) {
        const auto at = static_cast<size_t>(r);
        RANK_CHECK(at::equal(even[at], at::full({2, 2}, r)));
        RANK_CHECK(at::equal(uneven[at], at::arange(r * 3).view({r, 3})));
        RANK_CHECK(dims[at].dim() == (r == 0 ? 0 : 2) &&
                   dims[at].numel() == std::max<int64_t>(1, r));
      }
      if (size > 1) {
        RANK_CHECK(throws_usage(
            [&] { all_gather(dist, at::ones({1}, rank == 0 ? at::kFloat : at::kDouble)); }));
      }
    });
  }
}

TEST_CASE("coordinates in a mesh", "[parity]") {
  run_job({4}, [](Distributed& dist) {
    const runtime::DeviceMesh mesh(dist.world(), mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
    const int64_t rank = get_rank(dist);
    const std::vector<int64_t> own = {0, 0, rank / 2, 0, rank % 2};
    RANK_CHECK(get_mesh_coordinates(mesh) == own);
    RANK_CHECK(get_mesh_coordinates(mesh, 3) == std::vector<int64_t>({0, 0, 1, 0, 1}));
    RANK_CHECK(!get_mesh_coordinates(mesh, 4));
    RANK_CHECK(!get_mesh_coordinates(mesh, -1));
  });
}

TEST_CASE("which tensors a backend communicates", "[parity]") {
  const Distributed dist(compat::Variables::of({}));
  CHECK(backend_supports_cuda(dist, "nccl"));
  CHECK_FALSE(backend_supports_cpu(dist, "nccl"));
  CHECK(backend_supports_cpu(dist, "gloo"));
  CHECK_FALSE(backend_supports_cuda(dist, "gloo"));
  CHECK(backend_supports_cpu(dist, "cpu:gloo,cuda:nccl"));
  CHECK(backend_supports_cuda(dist, "cpu:gloo,cuda:nccl"));
  CHECK_THROWS_WITH(backend_supports_cpu(dist, "foo"), Catch::Contains("foo"));
  run_job({2}, [](Distributed& job) {
    RANK_CHECK(backend_supports_cpu(job) && !backend_supports_cuda(job));
  });
}

TEST_CASE("16-bit gradients are divided by a power of two near the root of the ranks", "[parity]") {
  const std::vector<std::pair<int64_t, double>> known = {{1, 1},  {2, 2},    {3, 2},    {4, 2},
                                                         {6, 4},  {8, 4},    {16, 4},   {32, 8},
                                                         {64, 8}, {128, 16}, {512, 32}, {1024, 32}};
  for (const auto& [ranks, factor] : known) CHECK(get_reduce_divide_factor(ranks) == factor);
}

TEST_CASE("n at a time: the rounds are OLMo-core's", "[parity]") {
  const Distributed dist(compat::Variables::of({}));
  CHECK(rounds_of_n_at_a_time(8, 3) == 3);
  CHECK(rounds_of_n_at_a_time(64, 8) == 8);
  CHECK(rounds_of_n_at_a_time(5, 9) == 1);
  CHECK_THROWS_WITH(rounds_of_n_at_a_time(5, 0), Catch::Contains("n = 0"));
  // Outside a job, the options set the rank.
  NAtATimeOptions options;
  options.n = 3;
  options.world_size = 8;
  options.local_rank = 7;
  int calls = 0;
  do_n_at_a_time(
      dist, [&] { ++calls; }, options);
  CHECK(calls == 1);
  options.n = 0;
  CHECK_THROWS_AS(do_n_at_a_time(
                      dist, [] {}, options),
                  Error);
}

TEST_CASE("n at a time: never more than n, and in the right rounds", "[parity]") {
  for (int64_t size = 1; size <= kMostRanks; ++size) {
    for (int64_t n = 1; n <= size + 1; ++n) {
      std::mutex mutex;
      std::vector<int64_t> order;
      run_job({size}, [&](Distributed& dist) {
        NAtATimeOptions options;
        options.n = n;
        const int64_t rank = get_rank(dist);
        const auto value = do_n_at_a_time(
            dist,
            [&] {
              const std::lock_guard lock(mutex);
              order.push_back(rank);
              return rank * 2;
            },
            options);
        RANK_CHECK(value == rank * 2);
      });
      const int64_t rounds = rounds_of_n_at_a_time(size, n);
      std::vector<int64_t> round_of;
      for (const int64_t rank : order) round_of.push_back(rank % rounds);
      CHECK(std::is_sorted(round_of.begin(), round_of.end()));
      CHECK(static_cast<int64_t>(order.size()) == size);
    }
  }
}

TEST_CASE("n at a time: one of each node by default", "[parity]") {
  for (const std::vector<int64_t>& nodes : {std::vector<int64_t>{2, 2}, {2, 2, 2}}) {
    std::mutex mutex;
    std::vector<int64_t> order;
    run_job(nodes, [&](Distributed& dist) {
      do_n_at_a_time(dist, [&] {
        const std::lock_guard lock(mutex);
        order.push_back(get_local_rank(dist));
      });
    });
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("n at a time: a given n asks for no number of nodes") {
  run_job({2}, [](Distributed& dist) {
    Distributed bare(compat::Variables::of({}));
    bare.join(dist.world());
    int calls = 0;
    do_n_at_a_time(bare, [&] { ++calls; }, {.n = 1});
    RANK_CHECK(calls == 1);
  });
}

TEST_CASE("n at a time: a rank that throws is every rank's error, and nobody waits", "[parity]") {
  for (int64_t size = 2; size <= kMostRanks; ++size) {
    std::atomic<int> calls = 0;
    std::atomic<int> own = 0;
    std::atomic<int> told = 0;
    run_job({size}, [&](Distributed& dist) {
      const int64_t rank = get_rank(dist);
      NAtATimeOptions options;
      options.n = 1;
      try {
        do_n_at_a_time(
            dist,
            [&] {
              ++calls;
              if (rank == 1) throw std::runtime_error("no disk");
            },
            options);
      } catch (const Error& error) {
        told += error.kind() == ErrorKind::kPeer &&
                        std::string(error.what()).find("rank 1: no disk") != std::string::npos
                    ? 1
                    : 0;
      } catch (const std::runtime_error& error) {
        own += std::string(error.what()) == "no disk" ? 1 : 0;
      }
      barrier(dist);  // the group still works
    });
    CHECK(calls == size);
    CHECK(own == 1);
    CHECK(told == size - 1);
  }
}

}  // namespace am::compat
