#include "am/launch/nodes/same_job.h"

#include <chrono>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/nodes/ask.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/nodes/peer_nodes.h"

namespace am::launch {
namespace {

Error difference(const JobSpec& spec, const JobTerms& there, const JobTerms& here) {
  std::string option = "--max-restarts";
  int64_t theirs = there.max_restarts;
  int64_t ours = here.max_restarts;
  if (there.num_nodes != here.num_nodes) {
    option = "--nnodes";
    theirs = there.num_nodes;
    ours = here.num_nodes;
  } else if (there.nproc != here.nproc) {
    option = "--nproc";
    theirs = there.nproc;
    ours = here.nproc;
  }
  return Error(ErrorKind::kUsage,
               cat("node ", spec.node_rank, " was started with ", option, " ", ours,
                   ", but node 0 with ", option, " ", theirs),
               "give --nnodes, --nproc and --max-restarts the same values on all nodes");
}

}  // namespace

void check_same_job(const JobSpec& spec, int64_t max_restarts) {
  if (spec.store == nullptr || spec.num_nodes == 1) return;
  NodeRendezvous rendezvous(*spec.store, spec.run_id, 0, spec.node_rank, spec.num_nodes);
  const JobTerms here = {spec.nproc, spec.num_nodes, max_restarts};
  if (spec.node_rank == 0) return rendezvous.publish_terms(here);
  const auto there = ask([&] { return rendezvous.terms(); }, std::chrono::minutes(2));
  if (!there) {
    throw Error(ErrorKind::kPeer, "node 0's launcher did not publish its options",
                "start the same version of am-run on all nodes");
  }
  if (*there == here) return;
  const Error error = difference(spec, *there, here);
  tell_failure(spec, error);
  throw Error(error);
}

}  // namespace am::launch
