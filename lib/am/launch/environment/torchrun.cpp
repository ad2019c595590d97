#include "am/launch/environment/torchrun.h"

#include "am/launch/environment/cores.h"

namespace am::launch {

std::vector<std::pair<std::string, std::string>> torchrun_variables(
    const RankEnvironment& environment, const TorchrunOptions& options) {
  const std::string rank = std::to_string(environment.rank);
  const std::string world = std::to_string(environment.world_size);
  const std::string nodes = std::to_string(environment.num_nodes);
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", rank},
      {"LOCAL_RANK", std::to_string(environment.local_rank)},
      {"GROUP_RANK", std::to_string(environment.node_rank)},
      {"ROLE_RANK", rank},
      {"ROLE_NAME", "default"},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", std::to_string(environment.local_world_size)},
      {"GROUP_WORLD_SIZE", nodes},
      {"ROLE_WORLD_SIZE", world},
      {"NUM_NODES", nodes},
      {"MASTER_ADDR", environment.master_addr},
      {"MASTER_PORT", std::to_string(environment.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(options.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", options.agent_store ? "True" : "False"},
  };
  if (!options.error_file.empty()) {
    variables.emplace_back("TORCHELASTIC_ERROR_FILE", options.error_file.string());
  }
  if (!options.omp_num_threads_given) {
    variables.emplace_back("OMP_NUM_THREADS", std::to_string(threads_per_rank(
                                                  options.cores, environment.local_world_size)));
  }
  return variables;
}

}  // namespace am::launch
