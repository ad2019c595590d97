// Sets up the store (a key-value server) in which a job's ranks, and the launchers of its nodes,
// find each other. The launcher of node 0 serves it.
//
//   Rendezvous rendezvous(options, spec);       // before the ranks start; must outlive them
//
// A plan's ranks use the store of node 0's launcher: on one node at a free port, on several at
// --rdzv. The ranks of a program of --exec use a store that the program's torch serves on rank 0;
// only the launchers, if there are several nodes, use the store at --rdzv.
#pragma once

#include <memory>

#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/store_server.h"
#include "am/launch/supervise/job_spec.h"
#include "job/options.h"

namespace am_run {

class Rendezvous {
 public:
  // Serves the store on node 0 and connects to it on other nodes, except that --exec on one node
  // needs no store. Sets the members of `spec` that describe the rendezvous: the address, the port,
  // agent_store, last_word and store. `trouble` is called if the served store cannot accept a
  // client. Throws Error(kPeer) if the port is in use or the launcher of node 0 cannot be reached.
  Rendezvous(const Options& options, am::launch::JobSpec& spec, am::launch::StoreTrouble trouble);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

 private:
  std::shared_ptr<am::launch::StoreServer> server_;
  std::unique_ptr<am::launch::BackgroundStore> store_;
};

}  // namespace am_run
