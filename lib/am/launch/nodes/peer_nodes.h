// One launcher's view of the other nodes' launchers during an attempt.
//
// If the store is lost, functions other than agree_on_port() do not throw. The loss means that node
// 0's launcher died or is unreachable; this node stops its ranks, and the loss is reported at the
// end of the job.
//
// Node 0 watches the heartbeats of all other nodes, reads all reports, and publishes one verdict,
// which the other nodes read: a job of N nodes transfers N reports and N verdicts. The other nodes
// need not watch node 0: without node 0 the store is lost too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "am/base/error.h"
#include "am/launch/cause/job_result.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/supervise/job_spec.h"

namespace am::launch {

class PeerNodes {
 public:
  using Clock = std::chrono::steady_clock;

  // `spec` must have a store; the spec and the store must outlive this object.
  explicit PeerNodes(const JobSpec& spec);

  // On node 0, chooses a free port and publishes it; on other nodes, waits up to two minutes for
  // that port. Returns nothing if `give_up` returns true, or if another node has failed. Throws
  // Error(kPeer) if node 0 publishes no port or the store is lost; no rank has been started then.
  std::optional<int> agree_on_port(const std::function<bool()>& give_up);

  // Returns when failure_elsewhere() should be called next.
  Clock::time_point next_look() const { return next_look_; }
  // Requests messages from the store at most once per look_interval(), and reads the answers 25 ms
  // later. Returns true if a node has aborted the attempt or is silent, or if the store is lost.
  bool failure_elsewhere();

  // Requests that all nodes stop their ranks; further calls do nothing.
  void abort_all();
  void publish(const NodeReport& report);
  // On node 0, waits until every node has reported or is gone; on other nodes, waits for node 0's
  // verdict. Stops waiting if the store is lost. `pause` sleeps a little between polls, and returns
  // true if the user ends the wait; collect() then returns false.
  bool collect(const std::function<bool()>& pause);

  // Adds to `result` the cause, a loss of the store, and what is known of the other nodes: their
  // ranks, failed launchers, silent nodes, and whether the user ended the job. Node 0 publishes the
  // verdict for the other nodes.
  void judge(JobResult& result);

 private:
  struct Heartbeat {
    std::string last;
    int64_t still = 0;  // number of consecutive polls with an unchanged heartbeat
  };

  void attempt(const std::function<void()>& call);
  void hear_report(int64_t node);
  void hear_verdict();
  void judge_for_all(JobResult& result);
  void hear_abort();
  void watch_heartbeats();
  bool is_silent(const Heartbeat& heartbeat) const;
  bool heard(int64_t node) const;
  std::vector<int64_t> unheard_nodes() const;
  bool heard_all() const;

  const JobSpec& spec_;
  NodeRendezvous rendezvous_;
  std::string lost_;  // why the store is lost; empty: it is not lost
  bool aborted_ = false;
  int64_t looks_since_abort_ = 0;
  // Set only on node 0: reports of the other nodes, nodes that count as gone, and heartbeats.
  std::map<int64_t, NodeReport> reports_;
  std::set<int64_t> silent_;
  std::map<int64_t, Heartbeat> heartbeats_;
  std::optional<Verdict> verdict_;  // the verdict of node 0; unused on node 0 itself
  Clock::time_point next_look_ = Clock::now();
  // Whether the next poll only reads the answers to the previous poll's requests.
  bool glances_ = false;
};

// Publishes that this launcher gives up, so that other nodes, if any, stop their ranks and report
// `error`. Ignores errors of the store.
void tell_failure(const JobSpec& spec, const Error& error);

}  // namespace am::launch
