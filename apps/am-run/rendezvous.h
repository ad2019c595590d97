// Rendezvous of a job's ranks and of its nodes' launchers, in a store that a launcher serves.
//
//   Rendezvous rendezvous(options, spec);       // before the ranks start; must outlive them
//
// A plan's ranks use the store of node 0's launcher: on one node at a free port, on several at
// --rdzv. A program of --exec uses its own torch, whose rank 0 serves the ranks' store; the
// launchers of several nodes still use --rdzv.
#pragma once

#include <memory>

#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/store_server.h"
#include "am/launch/supervise/job_spec.h"
#include "job/options.h"

namespace am_run {

class Rendezvous {
 public:
  // Serves the store (node 0) or connects to it, and fills the spec's address, port and store.
  // `trouble` is passed to the served store. Throws Error(kPeer) if the port is in use or node 0's
  // launcher cannot be reached.
  Rendezvous(const Options& options, am::launch::JobSpec& spec, am::launch::StoreTrouble trouble);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

 private:
  std::shared_ptr<am::launch::StoreServer> server_;
  std::unique_ptr<am::launch::BackgroundStore> store_;
};

}  // namespace am_run
