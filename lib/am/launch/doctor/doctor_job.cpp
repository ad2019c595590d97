// Checks of the job: whether the number of ranks matches the plan, whether variables of another
// launcher are set, whether the rendezvous address and port are usable, and which libtorch is
// loaded.
#include <cstdio>

#include "am/base/text.h"
#include "am/launch/doctor/doctor_checks.h"
#include "am/launch/environment/node_environment.h"

namespace am::launch {
namespace {

Check check_world(const JobNeeds& needs, const Machine& /*machine*/) {
  if (needs.given_world_size != 0 && needs.given_world_size != needs.world_size) {
    return error(cat("the plan has ", count_text(needs.world_size, "rank"),
                     ", but the launcher starts ", needs.given_world_size),
                 cat("--nproc times --nnodes must be ", needs.world_size,
                     ", or set mesh.world_size to ", needs.given_world_size));
  }
  return ok(cat(count_text(needs.world_size, "rank"), ": ", needs.ranks_here, " here, ",
                count_text(needs.num_nodes, "node")));
}

// Checks for environment variables of another launcher. If they describe a rank, am-run runs as
// this rank and starts no other ranks. am-run ignores LOCAL_RANK, MASTER_ADDR and similar variables
// without RANK and WORLD_SIZE.
Check check_variables(const JobNeeds& needs, const Machine& machine) {
  if (needs.placement_problem) {
    return error(needs.placement_problem->message, needs.placement_problem->help);
  }
  if (needs.placed_by_options)
    return ok("the command line's options place the ranks: am-run starts them");
  Diagnostics found;
  if (const auto node = detect_node(machine.environment, found)) {
    return ok(cat("PET_* variables make this machine node ", node->node_rank, " of ",
                  node->num_nodes, ": am-run starts its ranks"));
  }
  const auto here = detect_environment(machine.environment, found);
  if (!found.ok()) {
    return error(found.items().front().message, found.items().front().help);
  }
  if (here) {
    return warning(cat(here->launcher, "'s variables make this process rank ", here->rank, " of ",
                       here->world_size, ": am-run will run as that rank, and start no others"),
                   "to let am-run start the ranks, run it outside of that launcher");
  }
  std::string left;
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (machine.environment(name)) left += cat(left.empty() ? "" : ", ", name);
  }
  if (!left.empty()) {
    return warning(cat(left, " is set without RANK and WORLD_SIZE, so am-run ignores it"),
                   "unset it, or set RANK and WORLD_SIZE too");
  }
  return ok("none: am-run starts the ranks");
}

Check check_address(const JobNeeds& needs, const Machine& machine) {
  if (!machine.address_problem.empty()) {
    return error(cat(needs.master_addr, ": ", machine.address_problem),
                 "set --rdzv (or MASTER_ADDR) to a name or address of node 0 that this machine can "
                 "resolve");
  }
  return ok(needs.master_addr);
}

Check check_port(const JobNeeds& needs, const Machine& machine) {
  if (needs.master_port == 0) return ok("the launcher chooses a free port");
  if (!needs.serves_port) return skipped("node 0 or the launcher opens this port");
  if (!machine.port_problem.empty()) {
    return error(cat("port ", needs.master_port, ": ", machine.port_problem),
                 "another job may use this port: choose another port in --rdzv (or MASTER_PORT)");
  }
  return ok(cat("port ", needs.master_port, " is free"));
}

Check check_libtorch(const JobNeeds& needs, const Machine& /*machine*/) {
  if (needs.torch_problem) return error(needs.torch_problem->message, needs.torch_problem->help);
  int major = 0;
  int minor = 0;
  if (std::sscanf(needs.torch_version.c_str(), "%d.%d", &major, &minor) != 2) {
    return warning("the version is not known", "use libtorch 2.11, with which automesh is tested");
  }
  if (major < 2 || (major == 2 && minor < 11)) {
    return warning(cat(needs.torch_version, " is older than what automesh is tested with"),
                   "scripts/setup installs libtorch 2.11");
  }
  return ok(needs.torch_version);
}

}  // namespace

std::vector<NamedCheck> job_checks() {
  return {{"world size", check_world},
          {"launcher's variables", check_variables},
          {"rendezvous address", check_address},
          {"rendezvous port", check_port},
          {"libtorch", check_libtorch}};
}

}  // namespace am::launch
