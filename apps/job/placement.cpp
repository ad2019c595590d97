#include "job/placement.h"

#include "am/base/text.h"
#include "am/launch/environment/node_environment.h"

namespace am_run {

namespace {

using namespace am;

// Returns whether another launcher started one process per machine, for example with `srun
// --ntasks-per-node=1` or as pods. Each process must then launch the ranks of its machine.
bool is_one_of_nodes(const Options& options, const launch::RankEnvironment& here) {
  return here.local_world_size == 1 && options.nnodes == here.world_size;
}

void refuse_options(const Options& options, const launch::RankEnvironment& here,
                    Diagnostics& found) {
  found.error(
      "launch.environment", Span{},
      cat(join(options.placement, ", "), ": ", here.launcher,
          "'s variables make this process rank ", here.rank, " of ", here.world_size,
          ", so am-run starts no ranks here"),
      "remove these options; or, to let am-run start the ranks, start one process per machine and "
      "set --nnodes to the number of machines");
}

void place_node(const launch::NodeEnvironment& node, Options& options, Diagnostics& found) {
  if (!node.address.empty() && !is_host_and_port(node.address)) {
    found.error("launch.environment", Span{},
                cat("the address of machine 0 is not HOST:PORT: ", node.address),
                "set PET_MASTER_ADDR and PET_MASTER_PORT");
    return;
  }
  options.nproc = node.ranks;
  options.nnodes = node.num_nodes;
  options.node_rank = node.node_rank;
  options.rdzv = node.address;
}

}  // namespace

std::optional<launch::RankEnvironment> place_process(Options& options,
                                                     const launch::EnvironmentLookup& lookup,
                                                     Diagnostics& found) {
  if (options.placement.empty()) {
    if (const auto node = launch::detect_node(lookup, found)) {
      place_node(*node, options, found);
      return std::nullopt;
    }
    if (!found.ok()) return std::nullopt;
  }
  auto here = launch::detect_environment(lookup, found);
  if (!here || options.placement.empty()) return here;
  if (here->world_size > 1 && !is_one_of_nodes(options, *here)) {
    refuse_options(options, *here, found);
  }
  return std::nullopt;
}

}  // namespace am_run
