// Uses automesh::core, which needs no libtorch: prints the tp groups of a mesh, and loads a TP plan
// from a plugin.
#include <am/config/plan.h>
#include <am/layout/layout.h>
#include <am/mesh/layout.h>

#include <iostream>
#include <string>

namespace {

// Returns the number of rules in the TP plan of the plugin (tp_plan.c), or 0 after an error.
size_t rules_of_plugin() {
  am::Diagnostics found;
  auto plan = am::config::parse_plan(
      "[model]\npath = \"nowhere\"\n[strategy]\ntp_plan = \"" CONSUMER_PLAN "\"\n", "plan.toml", {},
      found);
  plan->plugins = am::config::Plugins::kAllowed;
  const auto rules = am::layout::select_tp_plan(*plan, {}, found);
  return found.ok() && rules ? rules->rules.size() : 0;
}

}  // namespace

int main() {
  const am::mesh::MeshLayout mesh({.dp_shard = 2, .tp = 2});
  std::cout << "tp groups of " << mesh.world_size() << " ranks:";
  for (const auto& group : mesh.groups("tp")) {
    std::cout << " [" << group.front() << ".." << group.back() << "]";
  }
  const size_t rules = rules_of_plugin();
  std::cout << "\nthe plugin's plan has " << rules << " rules\n";
  return mesh.groups("tp").size() == 2 && rules == 2 ? 0 : 1;
}
