#include "am/launch/environment/node_environment.h"

#include <catch2/catch.hpp>
#include <map>

using namespace am;
using namespace am::launch;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<NodeEnvironment> node_in(const Variables& variables, Diagnostics& found) {
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
  return detect_node(lookup, found);
}

std::optional<NodeEnvironment> node(const Variables& variables) {
  Diagnostics found;
  const auto here = node_in(variables, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.message);
  CHECK(found.empty());
  return here;
}

std::string problem(const Variables& variables) {
  Diagnostics found;
  CHECK_FALSE(node_in(variables, found));
  REQUIRE_FALSE(found.ok());
  return found.items().front().message;
}

Variables changed_in(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

const Variables kTrainer = {{"PET_NNODES", "4"},
                            {"PET_NPROC_PER_NODE", "8"},
                            {"PET_NODE_RANK", "2"},
                            {"PET_MASTER_ADDR", "job-node-0-0.job"},
                            {"PET_MASTER_PORT", "29400"}};

}  // namespace

TEST_CASE("Kubeflow's trainer describes one machine") {
  const auto here = node(kTrainer);
  REQUIRE(here);
  CHECK(here->num_nodes == 4);
  CHECK(here->node_rank == 2);
  CHECK(here->ranks == 8);
  CHECK(here->address == "job-node-0-0.job:29400");
  CHECK(node(changed_in(kTrainer, {{"PET_NPROC_PER_NODE", "gpu"}}))->ranks == 0);
  CHECK(node(changed_in(kTrainer, {{"PET_NNODES", "4:4"}}))->num_nodes == 4);
  CHECK(node(changed_in(kTrainer, {{"PET_MASTER_ADDR", "fd00::1"}}))->address == "[fd00::1]:29400");
  CHECK(node(changed_in(kTrainer, {{"PET_RDZV_ENDPOINT", "n0:1234"}}))->address == "n0:1234");
  const auto alone = node({{"PET_NPROC_PER_NODE", "2"}});
  REQUIRE(alone);
  CHECK(alone->num_nodes == 1);
  CHECK(alone->address.empty());
}

TEST_CASE("a PyTorchJob with several processes a pod describes a machine") {
  const Variables job = {{"RANK", "1"},
                         {"WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "job-master-0"},
                         {"MASTER_PORT", "23456"},
                         {"PET_NPROC_PER_NODE", "2"}};
  const auto here = node(job);
  REQUIRE(here);
  CHECK(here->num_nodes == 2);
  CHECK(here->node_rank == 1);
  CHECK(here->ranks == 2);
  CHECK(here->address == "job-master-0:23456");
  // With one process per pod, RANK is the rank of a process and not of a node.
  CHECK_FALSE(node(changed_in(job, {{"PET_NPROC_PER_NODE", "1"}, {"PET_NNODES", "4"}})));
}

TEST_CASE("a rank describes no machine") {
  CHECK_FALSE(node({}));
  CHECK_FALSE(node({{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  CHECK_FALSE(
      node(changed_in(kTrainer, {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "32"}})));
}

TEST_CASE("a machine's variables that are wrong are named") {
  CHECK_THAT(problem(changed_in(kTrainer, {{"PET_NNODES", "1:4"}})),
             Catch::Contains("PET_NNODES=1:4"));
  CHECK(problem(changed_in(kTrainer, {{"PET_NNODES", "four"}})) ==
        "PET_NNODES=four is not a whole number of at least 1");
  CHECK(problem(changed_in(kTrainer, {{"PET_NODE_RANK", "4"}})) ==
        "PET_NODE_RANK=4 must be below the number of machines, 4");
  CHECK(problem(changed_in(kTrainer, {{"PET_NPROC_PER_NODE", "0"}})) ==
        "PET_NPROC_PER_NODE=0 is not a whole number of at least 1");
  CHECK(problem({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}}) ==
        "PET_MASTER_ADDR is not set, and the job has several machines");
  CHECK(problem({{"PET_NNODES", "2"}}) == "PET_NNODES is set, but PET_NODE_RANK is not");
}

TEST_CASE("ranks that make no whole machines are an error") {
  const Variables job = {{"RANK", "0"},
                         {"WORLD_SIZE", "6"},
                         {"MASTER_ADDR", "a"},
                         {"MASTER_PORT", "29500"},
                         {"PET_NPROC_PER_NODE", "4"}};
  CHECK(problem(job) == "WORLD_SIZE=6 is not a multiple of PET_NPROC_PER_NODE=4");
  CHECK(problem(changed_in(job, {{"WORLD_SIZE", "2"}})) ==
        "WORLD_SIZE=2 is not a multiple of PET_NPROC_PER_NODE=4");
  CHECK(node(changed_in(job, {{"WORLD_SIZE", "8"}}))->num_nodes == 2);
}
