// One launcher's view of the other nodes' launchers during an attempt.
//
// A layer over NodeBoard that never throws: a board that cannot be reached any more is a fact about
// the job (node 0's launcher died), to be told at its end, and the ranks here must be ended first.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "am/launch/job_result.h"
#include "am/launch/job_spec.h"
#include "am/launch/node_board.h"

namespace am::launch {

class PeerNodes {
 public:
  using Clock = std::chrono::steady_clock;

  // The spec has a board.
  explicit PeerNodes(const JobSpec& spec);

  // Node 0 chooses a free port and tells it; the others wait for it, up to two minutes or until
  // `give_up`. Throws Error(kPeer) when it does not come: no rank was started yet.
  int agree_on_port(const std::function<bool()>& give_up);

  // When failure_elsewhere() should be asked next.
  Clock::time_point next_look() const { return next_look_; }
  // Looks at most twice a second. True when another node rang the bell, or the board is lost.
  bool failure_elsewhere();

  void ring();
  void publish(const NodeReport& report);
  // Waits until all nodes have published. From the bell on only for `seconds` more. `pause` sleeps
  // a little and is true when the user wants no more waiting.
  void collect(double seconds, const std::function<bool()>& pause);

  // The other nodes' ranks, those that told nothing, and what became of the board.
  void add_to(JobResult& result) const;

 private:
  void attempt(const std::function<void()>& call);

  const JobSpec& spec_;
  NodeBoard board_;
  std::string lost_;  // why the board cannot be reached; empty: it can
  bool rung_ = false;
  bool collected_ = false;
  std::map<int64_t, NodeReport> reports_;
  Clock::time_point next_look_ = Clock::now();
};

}  // namespace am::launch
