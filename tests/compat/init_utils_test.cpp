// Tests the counterparts of OLMo-core's init_distributed and NeMo AutoModel's init_utils.
#include "am/compat/init_utils.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

#include "am/base/error.h"
#include "am/compat/distributed_utils.h"
#include "compat/job.h"
#include "support/rank_check.h"

namespace am::compat {

using job::Logs;
using job::run_job;
using job::run_unjoined;

namespace {

compat::Variables variables(std::map<std::string, std::string> values) {
  return compat::Variables::of(std::move(values));
}

void (*sigint_handler())(int) {
  struct sigaction action = {};
  ::sigaction(SIGINT, nullptr, &action);
  return action.sa_handler;
}

void on_sigint(int) {}

}  // namespace

TEST_CASE("init_distributed makes a job of one process without a launcher", "[parity]") {
  for (const auto& given : {std::map<std::string, std::string>{},
                            {{"WORLD_SIZE", "1"}},
                            {{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"MASTER_PORT", "4242"}}}) {
    Logs logs;
    Distributed dist(variables(given), logs.of(0));
    init_distributed(dist, {.backend = "gloo"});
    CHECK(is_distributed(dist));
    CHECK(get_world_size(dist) == 1);
    for (const auto& [name, value] : {std::pair{"RANK", "0"},
                                      {"WORLD_SIZE", "1"},
                                      {"LOCAL_RANK", "0"},
                                      {"LOCAL_WORLD_SIZE", "1"},
                                      {"NUM_NODES", "1"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"OLMO_SHARED_FS", "1"},
                                      {"TORCH_NCCL_AVOID_RECORD_STREAMS", "1"},
                                      {"TORCH_DIST_INIT_BARRIER", "1"}}) {
      CHECK(dist.variables().get(name) == value);
    }
    const bool given_port = given.contains("MASTER_PORT");
    CHECK((dist.variables().get("MASTER_PORT") == "4242") == given_port);
    CHECK(logs.count(LogLevel::kInfo, "no launcher") == (given.empty() ? 1 : 0));
    CHECK(logs.count(LogLevel::kInfo, "global rank 0 = local rank 0") == 1);
    init_distributed(dist, {.backend = "gloo"});  // already joined
    CHECK_THROWS_WITH(init_distributed(dist, {.backend = "cpu:gloo,cuda:nccl"}),
                      Catch::Contains("joined with backend \"gloo\""));
  }
}

TEST_CASE("init_distributed refuses what cannot be right", "[parity]") {
  Distributed half(variables({{"RANK", "1"}}));
  CHECK_THROWS_WITH(init_distributed(half, {.backend = "gloo"}),
                    Catch::Contains("WORLD_SIZE is not"));
  Distributed worse(variables({{"RANK", "5"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}));
  CHECK_THROWS_AS(init_distributed(worse, {.backend = "gloo"}), Error);
  Distributed unknown(variables({}));
  CHECK_THROWS_WITH(init_distributed(unknown, {.backend = "foo"}), Catch::Contains("\"foo\""));
  CHECK_FALSE(is_distributed(unknown));
}

TEST_CASE("init_distributed keeps what is set, and says what that is", "[parity]") {
  Logs logs;
  Distributed dist(variables({{"TORCH_DIST_INIT_BARRIER", "0"}, {"OLMO_SHARED_FS", "0"}}),
                   logs.of(0));
  init_distributed(dist, {.backend = "gloo", .shared_filesystem = true});
  CHECK(dist.variables().get("TORCH_DIST_INIT_BARRIER") == "0");
  // The warning shows the current value and the requested one. (OLMo-core shows only the requested
  // one.)
  CHECK(logs.count(LogLevel::kWarning, "OLMO_SHARED_FS=0 is kept, instead of the requested 1") ==
        1);
  Distributed own(variables({}));
  init_distributed(own, {.backend = "gloo", .shared_filesystem = false});
  CHECK_FALSE(own.variables().get("OLMO_SHARED_FS"));
}

TEST_CASE("init_distributed knows hosts by name", "[parity]") {
  Distributed dist(variables({{"BEAKER_NODE_HOSTNAME", "jupiter-cs-12.example"}}));
  init_distributed(dist, {.backend = "gloo"});
  CHECK(dist.variables().get("NCCL_IB_HCA") == "^=mlx5_bond_0");
  CHECK_FALSE(dist.variables().get("NCCL_SOCKET_IFNAME"));  // only set with several nodes
  Distributed other(variables({{"BEAKER_NODE_HOSTNAME", "augusta-1"}, {"NCCL_BUFFSIZE", "1"}}));
  init_distributed(other, {.backend = "gloo", .timeout = std::chrono::seconds(7)});
  CHECK(other.variables().get("NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS") == "7000");
  CHECK(other.variables().get("NCCL_BUFFSIZE") == "1");
}

TEST_CASE("init_distributed joins ranks", "[parity]") {
  for (int64_t size = 1; size <= 5; ++size) {
    run_unjoined({size}, [&](Distributed& dist) {
      init_distributed(dist, {.backend = "gloo"});
      RANK_CHECK(get_world_size(dist) == size);
      RANK_CHECK(dist.world().timeout() == std::chrono::minutes(30));
    });
  }
}

TEST_CASE("initialize_distributed reports the job", "[parity]") {
  for (int64_t size = 1; size <= 5; ++size) {
    Logs logs;
    run_unjoined(
        {size},
        [&](Distributed& dist) {
          RANK_CHECK(get_world_size_safe(dist) == size);  // from the variables
          const DistInfo info = initialize_distributed(dist, "gloo");
          RANK_CHECK(info.backend == "gloo" && info.world_size == size);
          RANK_CHECK(info.rank == get_rank_safe(dist) && info.is_main == (info.rank == 0));
          RANK_CHECK(info.device == c10::Device(c10::kCPU));
          // The timeout is one minute, for every group.
          RANK_CHECK(dist.world().timeout() == std::chrono::minutes(1));
          if (size > 1) {
            RANK_CHECK(dist.world().group().communicator()->id->timeout == std::chrono::minutes(1));
          }
          const DistInfo again = initialize_distributed(dist, "gloo");
          RANK_CHECK(again.device == info.device && again.rank == info.rank);
        },
        &logs);
    CHECK(logs.count(LogLevel::kInfo, "initializing a job of") == 1);
    CHECK(logs.count(LogLevel::kInfo, "joined already") == 1);
  }
}

TEST_CASE("initialize_distributed needs no address for one process", "[parity]") {
  Distributed dist(variables({}));
  const DistInfo info = initialize_distributed(dist, "nccl");
  CHECK(info.backend == "nccl");  // the requested backend
  CHECK(info.world_size == 1);
}

TEST_CASE("a size of 1 without a rank, or a rank without a size, is one process", "[parity]") {
  for (const auto& given :
       {std::map<std::string, std::string>{{"WORLD_SIZE", "1"}}, {{"RANK", "3"}}}) {
    Distributed dist(variables(given));
    const DistInfo info = initialize_distributed(dist, "gloo");
    CHECK(info.rank == 0);
    CHECK(info.world_size == 1);
  }
}

TEST_CASE("ranks before joining come from Slurm's variables too") {
  Distributed dist(variables({{"SLURM_PROCID", "2"},
                              {"SLURM_NTASKS", "3"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_TASKS_PER_NODE", "2,1"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_NNODES", "2"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_JOB_ID", "7"},
                              {"SLURM_NODELIST", "a[1-2]"}}));
  CHECK(get_rank_safe(dist) == 2);
  CHECK(get_world_size_safe(dist) == 3);
}

TEST_CASE("ranks before joining come from the variables", "[parity]") {
  Distributed dist(variables({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}));
  CHECK(get_rank_safe(dist) == 3);
  CHECK(get_world_size_safe(dist) == 4);
  CHECK(get_local_rank_preinit(dist) == 1);
  CHECK(get_local_world_size_preinit(dist) == 1);
  dist.variables().set("RANK", "third");
  CHECK_THROWS_WITH(get_rank_safe(dist), Catch::Contains("RANK=third"));
}

TEST_CASE("destroy_global_state runs hooks first, once, and gives SIGINT back", "[parity]") {
  struct sigaction mine = {};
  mine.sa_handler = on_sigint;
  struct sigaction before = {};
  ::sigaction(SIGINT, &mine, &before);
  {
    Logs logs;
    Distributed dist(variables({}), logs.of(0));
    initialize_distributed(dist, "gloo");
    std::vector<std::string> order;
    dist.before_leaving("the first", [&] { order.push_back(is_distributed(dist) ? "1" : "gone"); });
    dist.before_leaving("the expert-parallel buffer", [&] {
      order.push_back(sigint_handler() == SIG_IGN ? "quiet" : "loud");
      throw std::runtime_error("no such buffer");
    });
    dist.before_leaving("a program's hook", [] { throw 1; });
    destroy_global_state(dist);
    CHECK(order == std::vector<std::string>{"quiet", "1"});
    CHECK_FALSE(is_distributed(dist));
    CHECK(sigint_handler() == on_sigint);  // OLMo-core restores SIG_DFL instead
    CHECK(logs.count(LogLevel::kWarning, "the expert-parallel buffer failed: no such buffer") == 1);
    CHECK(logs.count(LogLevel::kWarning, "a program's hook failed: an exception that is not") == 1);
    destroy_global_state(dist);
    CHECK(order.size() == 2);
    dist.before_leaving("without a job", [&] { order.push_back("alone"); });
    destroy_global_state(dist);
    CHECK(order.back() == "alone");
  }
  ::sigaction(SIGINT, &before, nullptr);
}

TEST_CASE("destroy_global_state at exit", "[parity]") {
  // exit() does not destroy the job, which is on the stack; the buffer's hook runs nevertheless.
  const pid_t child = ::fork();
  if (child == 0) {
    Distributed dist(variables({}));
    dist.before_leaving("buffer", [] { ::_exit(42); });
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("a job can be joined again after it was left", "[parity]") {
  run_unjoined({2}, [](Distributed& dist) {
    initialize_distributed(dist, "gloo");
    destroy_global_state(dist);
    RANK_CHECK(get_world_size(dist) == 1);
    RANK_CHECK(get_world_size_safe(dist) == 2);
    initialize_distributed(dist, "gloo");
    RANK_CHECK(all_reduce_value(dist, 1) == 2);
  });
}

}  // namespace am::compat
