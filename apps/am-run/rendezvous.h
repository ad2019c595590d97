// Sets up the store (a key-value server) through which a job's ranks, and the launchers of its
// nodes, find each other. The launcher of node 0 serves the store.
//
//   Rendezvous rendezvous(options, spec, trouble);   // before the ranks start; must outlive them
//
// The ranks of a plan use this store. Its port is the port of --rdzv; without --rdzv, it is a free
// port. The ranks of a program of --exec use another store, which the program's torch serves on
// rank 0. If the program runs on several nodes, its launchers use the store at --rdzv.
#pragma once

#include <memory>

#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/store_server.h"
#include "am/launch/supervise/job_spec.h"
#include "job/options.h"

namespace am_run {

class Rendezvous {
 public:
  // On node 0, starts to serve the store. On other nodes, connects to the store of node 0. For
  // --exec on one node, does neither. Sets the members of `spec` that describe the rendezvous: the
  // address, the port, agent_store, last_word and store. The served store calls `trouble` if it
  // cannot accept a client. Throws Error(kPeer) if the port is in use, or if the store of node 0
  // does not answer within options.timeout_seconds.
  Rendezvous(const Options& options, am::launch::JobSpec& spec, am::launch::StoreTrouble trouble);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

 private:
  std::shared_ptr<am::launch::StoreServer> server_;
  std::unique_ptr<am::launch::BackgroundStore> store_;
};

}  // namespace am_run
