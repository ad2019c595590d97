#include "am/launch/environment/cores.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

using namespace am::launch;

TEST_CASE("a rank takes its share of the cores, unless it was told") {
  std::map<std::string, std::string> variables;
  const EnvironmentLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  RankEnvironment here;
  here.local_world_size = 4;
  here.launcher = "slurm";
  CHECK(own_threads(here, lookup, 16) == 4);
  CHECK(own_threads(here, lookup, 2) == 1);
  variables["SLURM_CPUS_PER_TASK"] = "3";
  CHECK(own_threads(here, lookup, 16) == 3);
  here.launcher = "open-mpi";
  CHECK(own_threads(here, lookup, 16) == 4);
  variables["OMP_NUM_THREADS"] = "7";
  CHECK(own_threads(here, lookup, 16) == std::nullopt);
  CHECK(usable_cores() >= 1);
}
