// What the launchers of one job's nodes say to each other, over a Board.
//
//   bell       one of the nodes has a failure: all stop their ranks
//   report     how one node's ranks ended; the first cause is found over all of them
//   port       where rank 0 serves its store, when node 0 chose the port
//   next       node 0's decision after a failed attempt: again, and from which step
//   left       this node reads the board no more; node 0, which holds it, may go
//
// Keys hold the run id and the attempt, so that an attempt never sees what another one said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/launch/board.h"
#include "am/launch/node_report.h"

namespace am::launch {

// Decided by node 0 when an attempt has failed.
struct NextAttempt {
  bool restart = false;
  std::optional<int64_t> step;  // of the checkpoint to go on from; nothing: as the job began
};

// All functions throw Error(kPeer) when the board cannot be reached.
class NodeBoard {
 public:
  NodeBoard(Board& board, const std::string& run_id, int64_t attempt, int64_t node_rank,
            int64_t num_nodes);

  int64_t num_nodes() const { return num_nodes_; }

  void ring_bell();
  bool bell_rung();

  void publish(const NodeReport& report);
  std::optional<NodeReport> report_of(int64_t node);

  void publish_port(int port);
  std::optional<int> port();

  void decide(const NextAttempt& next);
  std::optional<NextAttempt> decision();

  void leave();
  bool has_left(int64_t node);

 private:
  std::string key(const std::string& what) const { return prefix_ + what; }

  Board& board_;
  std::string prefix_;
  int64_t node_rank_ = 0;
  int64_t num_nodes_ = 1;
};

}  // namespace am::launch
