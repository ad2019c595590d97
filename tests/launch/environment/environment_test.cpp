#include "am/launch/environment/environment.h"

#include <catch2/catch.hpp>
#include <map>

#include "am/base/text.h"
#include "am/launch/environment/slurm.h"
#include "am/launch/environment/torchrun.h"

using namespace am;
using namespace am::launch;

namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

RankEnvironment detect(const Variables& variables) {
  Diagnostics found;
  const auto here = detect_environment(lookup_in(variables), found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.message);
  REQUIRE(here);
  REQUIRE(found.empty());
  return *here;
}

bool detects_nothing(const Variables& variables) {
  Diagnostics found;
  return !detect_environment(lookup_in(variables), found) && found.empty();
}

// Returns all error messages in one text. Checks that no rank is detected and that all errors
// belong to the rule launch.environment.
std::string errors(const Variables& variables) {
  Diagnostics found;
  CHECK_FALSE(detect_environment(lookup_in(variables), found));
  CHECK_FALSE(found.ok());
  std::string all;
  for (const auto& item : found.items()) {
    CHECK(item.rule == "launch.environment");
    all += item.message + "\n";
  }
  return all;
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "5"},          {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "n01"}, {"MASTER_PORT", "29500"}};

const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_NNODES", "4"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "123456"},
                          {"SLURM_NODELIST", "gpu[007-009,12]"}};

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-host-77@1"}};

}  // namespace

TEST_CASE("no launcher is no error") {
  CHECK(detects_nothing({}));
  CHECK(detects_nothing({{"HOME", "/root"}, {"RANK", ""}, {"MASTER_ADDR", "n01"}}));
}

TEST_CASE("torchrun's variables") {
  const auto here = detect(kTorchrun);
  CHECK(here.launcher == "torchrun");
  CHECK(here.rank == 5);
  CHECK(here.world_size == 8);
  CHECK(here.local_rank == 1);
  CHECK(here.local_world_size == 4);
  CHECK(here.node_rank == 1);
  CHECK(here.num_nodes == 2);
  CHECK(here.master_addr == "n01");
  CHECK(here.master_port == 29500);
  // torchrun sets the rank of the node too, because nodes may have different numbers of ranks.
  const auto uneven = detect(with(kTorchrun, {{"GROUP_RANK", "2"}, {"GROUP_WORLD_SIZE", "3"}}));
  CHECK(uneven.node_rank == 2);
  CHECK(uneven.num_nodes == 3);
}

TEST_CASE("a PyTorchJob pod has its machine to itself") {
  const auto here = detect({{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "job-master-0"},
                            {"MASTER_PORT", "23456"}});
  CHECK(here.local_rank == 0);
  CHECK(here.local_world_size == 1);
  CHECK(here.node_rank == 3);
  CHECK(here.num_nodes == 4);
}

TEST_CASE("a world of one needs no address") {
  const auto here = detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(here.master_addr == "127.0.0.1");
  CHECK(here.master_port == 0);
}

TEST_CASE("torchrun's variables that are wrong are named") {
  CHECK(errors({{"RANK", "0"}}) == "RANK is set, but WORLD_SIZE is not\n");
  CHECK(errors({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}) ==
        "WORLD_SIZE is set, but RANK is not\n");
  CHECK(errors(with(kTorchrun, {{"RANK", "two"}})) ==
        "RANK=two is not a whole number of at least 0\n");
  CHECK(errors(with(kTorchrun, {{"RANK", "-1"}})) ==
        "RANK=-1 is not a whole number of at least 0\n");
  CHECK(errors(with(kTorchrun, {{"WORLD_SIZE", "8.0"}})) ==
        "WORLD_SIZE=8.0 is not a whole number of at least 1\n");
  CHECK(errors(with(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}})) ==
        "WORLD_SIZE=99999999999999999999 is not a whole number of at least 1\n");
  CHECK(errors(with(kTorchrun, {{"RANK", "8"}})) == "RANK=8 must be below WORLD_SIZE=8\n");
  CHECK(errors(with(kTorchrun, {{"LOCAL_RANK", "4"}})) ==
        "LOCAL_RANK=4 must be below the number of ranks on this machine, 4\n");
  CHECK(errors(without(kTorchrun, "LOCAL_WORLD_SIZE")) ==
        "LOCAL_RANK is set, but LOCAL_WORLD_SIZE is not\n");
  CHECK_THAT(errors(without(kTorchrun, "MASTER_ADDR")),
             Catch::StartsWith("MASTER_ADDR is not set"));
  CHECK(errors(without(kTorchrun, "MASTER_PORT")) == "MASTER_PORT is not set\n");
  CHECK(errors(with(kTorchrun, {{"MASTER_PORT", "65536"}})) ==
        "MASTER_PORT=65536 is not a port: the largest is 65535\n");
  CHECK(errors(with(kTorchrun, {{"MASTER_PORT", "http"}})) ==
        "MASTER_PORT=http is not a whole number of at least 1\n");
}

TEST_CASE("all wrong variables are reported at once") {
  const std::string all = errors(with(kTorchrun, {{"RANK", "x"}, {"MASTER_PORT", "y"}}));
  CHECK_THAT(all, Catch::Contains("RANK=x") && Catch::Contains("MASTER_PORT=y"));
}

TEST_CASE("Slurm's variables") {
  const auto here = detect(kSlurm);
  CHECK(here.launcher == "slurm");
  CHECK(here.rank == 5);
  CHECK(here.world_size == 7);
  CHECK(here.local_rank == 1);
  CHECK(here.local_world_size == 2);
  CHECK(here.node_rank == 2);
  CHECK(here.num_nodes == 4);
  CHECK(here.master_addr == "gpu007");
  CHECK(here.master_port == 10000 + 123456 % 20000);
  const auto last =
      detect(with(kSlurm, {{"SLURM_PROCID", "6"}, {"SLURM_NODEID", "3"}, {"SLURM_LOCALID", "0"}}));
  CHECK(last.local_world_size == 1);
}

TEST_CASE("Slurm: the step's numbers and the user's address come first") {
  const auto here = detect(with(kSlurm, {{"SLURM_NTASKS", "64"},
                                         {"SLURM_STEP_NUM_TASKS", "7"},
                                         {"SLURM_STEP_NODELIST", "gpu008"},
                                         {"MASTER_PORT", "4444"}}));
  CHECK(here.world_size == 7);
  CHECK(here.master_addr == "gpu008");
  CHECK(here.master_port == 4444);
  CHECK(detect(with(kSlurm, {{"MASTER_ADDR", "ib0.gpu007"}})).master_addr == "ib0.gpu007");
}

TEST_CASE("Slurm: two steps of a job get two ports") {
  CHECK(detect(kSlurm).master_port != detect(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).master_port);
}

TEST_CASE("numbers that no job has are errors, not sizes that wrap around") {
  const std::string most = "9223372036854775807";
  const Variables torchrun = {
      {"RANK", "0"},        {"WORLD_SIZE", most},     {"LOCAL_RANK", "0"},
      {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "2"}};
  CHECK(errors(torchrun) ==
        "WORLD_SIZE=9223372036854775807 is more than 1099511627776, which no "
        "job has\n");
  CHECK_FALSE(slurm_tasks_per_node(cat("1,1(x", most, ")")));
  CHECK_FALSE(slurm_tasks_per_node(cat("1(x", most, ")")));
}

TEST_CASE("a machine's number is below the number of machines") {
  const Variables torchrun = {{"RANK", "1"},        {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"},
                              {"GROUP_RANK", "2"},  {"GROUP_WORLD_SIZE", "2"}};
  CHECK(errors(torchrun) == "node rank 2 must be below the number of nodes, 2\n");
  CHECK(detect(with(torchrun, {{"GROUP_RANK", "0"}})).num_nodes == 2);
  CHECK(errors(with(kSlurm, {{"SLURM_NODEID", "64"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}})) != "");
}

TEST_CASE("there are no more machines than ranks") {
  CHECK(errors(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "8"}})) ==
        "the job has more machines (8) than ranks (SLURM_NTASKS=7)\n");
  CHECK(errors(with(kTorchrun, {{"GROUP_WORLD_SIZE", "9"}})) ==
        "the job has more machines (9) than ranks (WORLD_SIZE=8)\n");
}

TEST_CASE("Slurm: a shell is no rank") {
  CHECK(detects_nothing(without(kSlurm, "SLURM_STEP_ID")));  // in the batch script
  CHECK(
      detects_nothing(with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})));  // in an interactive step
  CHECK(detects_nothing(with(kSlurm, {{"SLURM_PTY_PORT", "40000"}})));    // srun --pty
  CHECK(detects_nothing(without(kSlurm, "SLURM_PROCID")));                // in the shell of salloc
}

TEST_CASE("Slurm's variables that are wrong are named") {
  CHECK(errors(without(kSlurm, "SLURM_LOCALID")) ==
        "SLURM_PROCID is set, but SLURM_LOCALID is not\n");
  CHECK_THAT(errors(with(kSlurm, {{"SLURM_TASKS_PER_NODE", "2(y3)"}})),
             Catch::Contains("SLURM_TASKS_PER_NODE=2(y3)"));
  CHECK_THAT(errors(with(kSlurm, {{"SLURM_NODELIST", "gpu[01"}})),
             Catch::Contains("SLURM_NODELIST=gpu[01"));
  CHECK_THAT(errors(with(kSlurm, {{"SLURM_NODEID", "9"}})), Catch::Contains("SLURM_NODEID=9"));
  CHECK(errors(with(kSlurm, {{"SLURM_PROCID", "7"}})) ==
        "SLURM_PROCID=7 must be below SLURM_NTASKS=7\n");
}

TEST_CASE("Open MPI's variables") {
  const auto here = detect(kOpenMpi);
  CHECK(here.launcher == "open-mpi");
  CHECK(here.rank == 1);
  CHECK(here.world_size == 2);
  CHECK(here.local_rank == 1);
  CHECK(here.local_world_size == 2);
  CHECK(here.num_nodes == 1);
  CHECK(here.master_addr == "127.0.0.1");
  CHECK(here.master_port >= 10000);
  CHECK(here.master_port ==
        detect(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}))
            .master_port);
}

TEST_CASE("Open MPI on several machines needs the address") {
  const Variables two_nodes = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK_THAT(errors(two_nodes), Catch::Contains("MASTER_ADDR") && Catch::Contains("MASTER_PORT"));
  const auto here = detect(with(two_nodes, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1234"}}));
  CHECK(here.num_nodes == 2);
  CHECK(here.master_port == 1234);
}

TEST_CASE("mpirun inside a Slurm allocation is Open MPI") {
  CHECK(detect(with(kSlurm, kOpenMpi)).launcher == "open-mpi");
}

TEST_CASE("PMI's variables") {
  const Variables pmi = {{"PMI_RANK", "1"},
                         {"PMI_SIZE", "2"},
                         {"MPI_LOCALRANKID", "1"},
                         {"MPI_LOCALNRANKS", "2"},
                         {"MASTER_PORT", "29500"}};
  const auto here = detect(pmi);
  CHECK(here.launcher == "pmi");
  CHECK(here.rank == 1);
  CHECK(here.local_rank == 1);
  CHECK(here.local_world_size == 2);
  CHECK(here.master_addr == "127.0.0.1");
  // Without variables for the local rank, all ranks are taken to be on this machine.
  const auto bare = detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29500"}});
  CHECK(bare.local_rank == 1);
  CHECK(bare.local_world_size == 2);
  CHECK(errors({{"PMI_RANK", "0"}}) == "PMI_RANK is set, but PMI_SIZE is not\n");
  CHECK(errors({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "1"}}) ==
        "PMI_RANK=2 must be below PMI_SIZE=2\n");
}

TEST_CASE("PMI from srun itself is Slurm, from another mpirun it is PMI") {
  CHECK(detect(with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}})).launcher == "slurm");
  CHECK(
      detect(with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "1"}})).launcher ==
      "pmi");
}

TEST_CASE("torchrun's variables inside Slurm are torchrun") {
  CHECK(detect(with(kSlurm, kTorchrun)).launcher == "torchrun");
}

TEST_CASE("RANK and LOCAL_RANK of a container's hook: Slurm's variables say the rest") {
  const Variables hook = {{"RANK", "5"},
                          {"WORLD_SIZE", "7"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "gpu007"},
                          {"MASTER_PORT", "29500"}};
  const auto here = detect(with(kSlurm, hook));
  CHECK(here.rank == 5);
  CHECK(here.local_world_size == 2);
  CHECK(here.node_rank == 2);
  CHECK(here.num_nodes == 4);
  // Slurm variables of another job step do not describe this rank.
  CHECK(errors(with(with(kSlurm, hook), {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})) ==
        "LOCAL_RANK is set, but LOCAL_WORLD_SIZE is not\n");
  const auto alone = detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
  CHECK(alone.local_world_size == 1);
}

TEST_CASE("the number of local ranks by the names of other launchers") {
  const Variables bare = without(kTorchrun, "LOCAL_WORLD_SIZE");
  CHECK(detect(with(bare, {{"LOCAL_SIZE", "4"}})).num_nodes == 2);  // name that DeepSpeed uses
  CHECK(detect(with(bare, {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}))
            .num_nodes == 2);
  CHECK(detect(with(bare, {{"PMI_RANK", "5"}, {"MPI_LOCALNRANKS", "4"}})).num_nodes == 2);
  CHECK(errors(with(bare, {{"PMI_RANK", "4"}, {"MPI_LOCALNRANKS", "4"}})) ==
        "LOCAL_RANK is set, but LOCAL_WORLD_SIZE is not\n");
}

TEST_CASE("PMI's local rank by the names of PALS and Cray") {
  const Variables job = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  for (const auto& [rank, size] :
       {std::pair{"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}, {"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"}}) {
    const Variables two_nodes = with(job, {{rank, "0"}, {size, "1"}});
    CHECK_THAT(errors(two_nodes), Catch::Contains("MASTER_ADDR is not set"));
    const auto here = detect(with(two_nodes, {{"MASTER_ADDR", "n01"}}));
    CHECK(here.local_rank == 0);
    CHECK(here.local_world_size == 1);
    CHECK(here.node_rank == 1);
    CHECK(here.num_nodes == 2);
    CHECK_THAT(errors(with(job, {{size, "1"}, {"MASTER_ADDR", "n01"}})),
               Catch::Contains(std::string(rank) + " is not"));
  }
}

TEST_CASE("Flux's variables") {
  const Variables flux = {{"FLUX_TASK_RANK", "5"},     {"FLUX_JOB_SIZE", "8"},
                          {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_NNODES", "2"},
                          {"FLUX_JOB_ID", "f7abc"},    {"MASTER_ADDR", "n01"},
                          {"PMI_RANK", "5"},           {"PMI_SIZE", "8"}};
  const auto here = detect(flux);
  CHECK(here.launcher == "flux");
  CHECK(here.rank == 5);
  CHECK(here.local_rank == 1);
  CHECK(here.local_world_size == 4);
  CHECK(here.node_rank == 1);
  CHECK(here.num_nodes == 2);
  CHECK(here.master_port >= 10000);
  CHECK(errors(without(flux, "FLUX_TASK_LOCAL_ID")) ==
        "FLUX_TASK_RANK is set, but FLUX_TASK_LOCAL_ID is not\n");
  CHECK_THAT(errors(without(flux, "MASTER_ADDR")), Catch::Contains("MASTER_ADDR is not set"));
}

TEST_CASE("an IPv6 address may stand in brackets") {
  CHECK(detect(with(kTorchrun, {{"MASTER_ADDR", "[fd00::1]"}})).master_addr == "fd00::1");
}

TEST_CASE("first host of a Slurm list") {
  CHECK(first_slurm_host("node[01-03,7]") == "node01");
  CHECK(first_slurm_host("node3") == "node3");
  CHECK(first_slurm_host("a1,b2") == "a1");
  CHECK(first_slurm_host("a[3,5],b2") == "a3");
  CHECK(first_slurm_host("rack[1-2]n[3-4].local") == "rack1n3.local");
  CHECK(first_slurm_host(" node3\n") == "node3");
  CHECK_FALSE(first_slurm_host(""));
  CHECK_FALSE(first_slurm_host("node["));
  CHECK_FALSE(first_slurm_host("node[]"));
  CHECK_FALSE(first_slurm_host("node[a-b]"));
  CHECK_FALSE(first_slurm_host("no de"));
  CHECK_FALSE(first_slurm_host(",b"));
}

TEST_CASE("Slurm's tasks per node") {
  CHECK(slurm_tasks_per_node("2(x3),1") == std::vector<int64_t>{2, 2, 2, 1});
  CHECK(slurm_tasks_per_node("8") == std::vector<int64_t>{8});
  CHECK_FALSE(slurm_tasks_per_node(""));
  CHECK_FALSE(slurm_tasks_per_node("2(x3"));
  CHECK_FALSE(slurm_tasks_per_node("2(x0)"));
  CHECK_FALSE(slurm_tasks_per_node("0"));
  CHECK_FALSE(slurm_tasks_per_node("2,,3"));
  CHECK_FALSE(slurm_tasks_per_node("2(x99999999999)"));
}

TEST_CASE("torchrun's whole set, and it reads back") {
  RankEnvironment here;
  here.rank = 5;
  here.world_size = 8;
  here.local_rank = 1;
  here.local_world_size = 4;
  here.node_rank = 1;
  here.num_nodes = 2;
  here.master_addr = "n01";
  here.master_port = 29500;
  TorchrunOptions options;
  options.run_id = "job7";
  options.cores = 10;
  options.error_file = "/tmp/e.json";
  Variables set;
  for (const auto& [name, value] : torchrun_variables(here, options)) set[name] = value;
  CHECK(set == Variables{{"RANK", "5"},
                         {"LOCAL_RANK", "1"},
                         {"GROUP_RANK", "1"},
                         {"ROLE_RANK", "5"},
                         {"ROLE_NAME", "default"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"GROUP_WORLD_SIZE", "2"},
                         {"ROLE_WORLD_SIZE", "8"},
                         {"NUM_NODES", "2"},
                         {"MASTER_ADDR", "n01"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                         {"TORCHELASTIC_MAX_RESTARTS", "0"},
                         {"TORCHELASTIC_RUN_ID", "job7"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                         {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"},
                         {"OMP_NUM_THREADS", "2"}});
  const auto read = detect(set);
  CHECK(read.rank == 5);
  CHECK(read.node_rank == 1);
  options.omp_num_threads_given = true;
  options.error_file.clear();
  options.agent_store = true;
  options.restart_count = 2;
  options.max_restarts = 3;
  set.clear();
  for (const auto& [name, value] : torchrun_variables(here, options)) set[name] = value;
  CHECK(set.count("OMP_NUM_THREADS") == 0);
  CHECK(set.count("TORCHELASTIC_ERROR_FILE") == 0);
  CHECK(set["TORCHELASTIC_USE_AGENT_STORE"] == "True");
  CHECK(set["TORCHELASTIC_RESTART_COUNT"] == "2");
  CHECK(set["TORCHELASTIC_MAX_RESTARTS"] == "3");
  options.omp_num_threads_given = false;
  options.cores = 2;
  for (const auto& [name, value] : torchrun_variables(here, options)) set[name] = value;
  CHECK(set["OMP_NUM_THREADS"] == "1");
}
