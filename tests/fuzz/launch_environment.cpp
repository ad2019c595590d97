// Input: a launcher's environment variables, one NAME=VALUE per line. A rank or node that is
// detected in them must lie inside the detected job.
#include <cstdlib>
#include <map>
#include <string>

#include "am/base/text.h"
#include "am/launch/environment/cores.h"
#include "am/launch/environment/environment.h"
#include "am/launch/environment/node_environment.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::launch;
  std::map<std::string, std::string> variables;
  for (const std::string& line : am::split(am::fuzz::text_of(data, size), '\n')) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const EnvironmentLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  am::Diagnostics found;
  if (const auto here = detect_environment(lookup, found)) {
    const bool sound = here->rank >= 0 && here->rank < here->world_size && here->local_rank >= 0 &&
                       here->local_rank < here->local_world_size &&
                       here->local_world_size <= here->world_size && here->num_nodes > 0 &&
                       here->num_nodes <= here->world_size && here->node_rank >= 0 &&
                       here->node_rank < here->num_nodes && here->master_port >= 0 &&
                       here->master_port < 65536 && !here->master_addr.empty();
    if (!sound) std::abort();
    own_threads(*here, lookup, 16);
  }
  am::Diagnostics of_node;
  if (const auto node = detect_node(lookup, of_node)) {
    const bool sound = node->num_nodes > 0 && node->node_rank >= 0 &&
                       node->node_rank < node->num_nodes && node->ranks >= 0 &&
                       node->address.empty() == (node->num_nodes == 1);
    if (!sound) std::abort();
  }
  return 0;
}
