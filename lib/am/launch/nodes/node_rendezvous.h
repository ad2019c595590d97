// What the launchers of one job's nodes say to each other, over a KeyValueStore.
//
//   terms      what node 0 was started with: all must have been started alike
//   heartbeat  a number that rises as long as a launcher lives (background_store.h)
//   abort      one of the nodes has a failure: all stop their ranks
//   report     how one node's ranks ended; the first cause is found over all of them
//   port       where rank 0 serves its store, when node 0 chose the port
//   next       node 0's decision after a failed attempt: again, and from which step
//   left       this node reads the store no more; node 0, which holds it, may go
//
// Keys hold the run id and, but for the heartbeats, the attempt, so that an attempt never sees what
// another one said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/nodes/key_value_store.h"
#include "am/launch/nodes/node_report.h"

namespace am::launch {

// Decided by node 0 when an attempt has failed.
struct NextAttempt {
  bool restart = false;
  std::optional<int64_t> step;  // of the checkpoint to go on from; nothing: as the job began
};

// What must be the same on all nodes, for the ranks to find each other and for all launchers to
// move to the next attempt.
struct JobTerms {
  int64_t nproc = 1;
  int64_t num_nodes = 1;
  int64_t max_restarts = 0;

  bool operator==(const JobTerms&) const = default;
};

// Where one node's launcher writes its heartbeat.
std::string heartbeat_key(const std::string& run_id, int64_t node);

// All functions throw Error(kPeer) when the store cannot be reached, or says what no launcher
// writes.
class NodeRendezvous {
 public:
  NodeRendezvous(KeyValueStore& store, const std::string& run_id, int64_t attempt,
                 int64_t node_rank, int64_t num_nodes);

  int64_t num_nodes() const { return num_nodes_; }

  void publish_terms(const JobTerms& terms);
  std::optional<JobTerms> terms();

  std::optional<std::string> heartbeat_of(int64_t node);

  void raise_abort();
  // The node that raised it.
  std::optional<int64_t> aborting_node();

  void publish(const NodeReport& report) { publish_for(node_rank_, report); }
  void publish_for(int64_t node, const NodeReport& report);
  std::optional<NodeReport> report_of(int64_t node);

  void publish_port(int port);
  std::optional<int> port();

  void decide(const NextAttempt& next);
  std::optional<NextAttempt> decision();

  void leave();
  bool has_left(int64_t node);

 private:
  std::string key(const std::string& what) const { return prefix_ + what; }
  // The number under that key. Throws Error(kPeer) for what is none from `low` to `high`.
  std::optional<int64_t> number(const std::string& what, int64_t low, int64_t high);

  KeyValueStore& store_;
  std::string run_id_;
  std::string prefix_;
  int64_t node_rank_ = 0;
  int64_t num_nodes_ = 1;
};

}  // namespace am::launch
