// One launcher's view of the other nodes' launchers during an attempt.
//
// A layer over NodeRendezvous that never throws: a store that cannot be reached any more is a fact
// about the job (node 0's launcher died), to be told at its end, and the ranks here must be ended
// first.
//
// Node 0 watches the heartbeats of all others, and reports for a launcher that gives no sign of
// life. The others need not watch it: when it is gone, so is the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "am/base/error.h"
#include "am/launch/cause/job_result.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

class PeerNodes {
 public:
  using Clock = std::chrono::steady_clock;

  // The spec has a store.
  explicit PeerNodes(const JobSpec& spec);

  // Node 0 chooses a free port and tells it; the others wait for it, up to two minutes. Nothing
  // when `give_up` says so, or when another node has failed. Throws Error(kPeer) when it does not
  // come: no rank was started yet.
  std::optional<int> agree_on_port(const std::function<bool()>& give_up);

  // When failure_elsewhere() should be asked next.
  Clock::time_point next_look() const { return next_look_; }
  // Looks at most twice a second. True when another node aborts or gives no sign of life, or
  // when the store is lost.
  bool failure_elsewhere();

  // Tells all nodes to stop their ranks; once.
  void abort_all();
  void publish(const NodeReport& report);
  // Waits until every node has reported or is gone. `pause` sleeps a little and is true when the
  // user wants no more waiting: then the answer is false.
  bool collect(const std::function<bool()>& pause);

  // The other nodes' ranks, those that told nothing, and what became of the store.
  void add_to(JobResult& result) const;

 private:
  struct Heartbeat {
    std::string last;
    int64_t still = 0;  // looks that saw the same again
  };

  void attempt(const std::function<void()>& call);
  std::optional<NodeReport> unheard_report(int64_t node);
  void hear_abort();
  void watch_heartbeats();
  bool is_silent(const Heartbeat& heartbeat) const;
  bool heard_all() const;

  const JobSpec& spec_;
  NodeRendezvous rendezvous_;
  std::string lost_;  // why the store cannot be reached; empty: it can
  bool aborted_ = false;
  int64_t looks_since_abort_ = 0;
  std::map<int64_t, NodeReport> reports_;
  std::map<int64_t, Heartbeat> heartbeats_;
  Clock::time_point next_look_ = Clock::now();
};

// This launcher gives up: the others, if there are any, stop their ranks and say why. Best effort.
void tell_failure(const JobSpec& spec, const Error& error);

}  // namespace am::launch
