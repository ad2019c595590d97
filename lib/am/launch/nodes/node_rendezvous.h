// Messages between the launchers of a job's nodes, over a KeyValueStore.
//
//   terms      launch options of node 0, which must be equal on all nodes
//   heartbeat  a number that rises as long as a launcher is alive (background_store.h)
//   abort      a node has a failure, and all nodes stop their ranks
//   report     how one node's ranks ended; node 0 reads all reports
//   verdict    node 0's conclusion: the first cause and how all ranks ended (verdict.h)
//   port       port of the ranks' store, if node 0 chose a free port
//   next       node 0's decision after a failed attempt: whether to restart, and from which step
//   left       a node no longer reads the store; node 0 waits for this message before it exits,
//              because its process serves the store
//
// An attempt is one run of all ranks; each restart of the job begins a new attempt. Keys contain
// the run id and, except for the heartbeats, the number of the attempt. An attempt therefore never
// reads messages of another attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/nodes/key_value_store.h"
#include "am/launch/nodes/node_report.h"
#include "am/launch/nodes/verdict.h"

namespace am::launch {

// Node 0's decision after a failed attempt.
struct NextAttempt {
  bool restart = false;
  // Step of the checkpoint to resume from; nothing: start as the first attempt did.
  std::optional<int64_t> step;
};

// Launch options that must be equal on all nodes. The rendezvous of the ranks and the launchers'
// agreement on the next attempt depend on them.
struct JobTerms {
  int64_t nproc = 1;
  int64_t num_nodes = 1;
  int64_t max_restarts = 0;

  bool operator==(const JobTerms&) const = default;
};

// Returns the time between two heartbeats of a launcher, and between its polls for messages of
// other launchers: 0.5 s, or 1 ms per node but at most 1 s if the job has more than 500 nodes.
std::chrono::milliseconds look_interval(int64_t num_nodes);

// Returns the key of the heartbeat of a node's launcher.
std::string heartbeat_key(const std::string& run_id, int64_t node);

// One node's access to the messages of one attempt. Functions that read a message return nothing
// until the message is published. All functions throw Error(kPeer) if the store cannot be reached.
// Functions that read a message also throw Error(kPeer) if the message is invalid, except that
// report_of() then returns nothing.
class NodeRendezvous {
 public:
  NodeRendezvous(KeyValueStore& store, const std::string& run_id, int64_t attempt,
                 int64_t node_rank, int64_t num_nodes);

  int64_t num_nodes() const { return num_nodes_; }

  void publish_terms(const JobTerms& terms);
  std::optional<JobTerms> terms();

  std::optional<std::string> heartbeat_of(int64_t node);

  // Publishes that all nodes must stop their ranks.
  void raise_abort();
  // Returns the node that last called raise_abort(), if any.
  std::optional<int64_t> aborting_node();

  void publish(const NodeReport& report);
  std::optional<NodeReport> report_of(int64_t node);

  void publish(const Verdict& verdict);
  // `ranks_per_node` determines the node of each rank in the verdict.
  std::optional<Verdict> verdict(int64_t ranks_per_node);

  void publish_port(int port);
  std::optional<int> port();

  void decide(const NextAttempt& next);
  std::optional<NextAttempt> decision();

  void leave();
  bool has_left(int64_t node);

 private:
  std::string key(const std::string& what) const { return prefix_ + what; }
  // Returns the number in the message `what`; nothing if the message is not published. Throws
  // Error(kPeer) unless the number is from `low` to `high`.
  std::optional<int64_t> number(const std::string& what, int64_t low, int64_t high);

  KeyValueStore& store_;
  std::string run_id_;
  std::string prefix_;
  int64_t node_rank_ = 0;
  int64_t num_nodes_ = 1;
};

}  // namespace am::launch
