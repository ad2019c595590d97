// Where the ranks of a job, and the launchers of its nodes, meet: a store that a launcher serves.
//
//   Rendezvous rendezvous(options, spec);       // before the ranks start; lives as long as they do
//
// A plan's ranks meet in the store of node 0's launcher: on one node at a free port, on several at
// --rdzv. A program of --exec has its own torch, whose rank 0 serves its store; the launchers of
// several nodes meet at --rdzv all the same.
#pragma once

#include <memory>

#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/store_server.h"
#include "am/launch/supervise/job_spec.h"
#include "job/options.h"

namespace am_run {

class Rendezvous {
 public:
  // Serves or reaches the store and fills the spec's address, port and store. Throws Error(kPeer):
  // the port is in use, or node 0's launcher cannot be reached.
  Rendezvous(const Options& options, am::launch::JobSpec& spec);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

 private:
  std::shared_ptr<am::launch::StoreServer> server_;
  std::unique_ptr<am::launch::BackgroundStore> store_;
};

}  // namespace am_run
