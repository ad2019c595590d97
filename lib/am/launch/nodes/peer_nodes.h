// One launcher's view of the other nodes' launchers during an attempt.
//
// The store is lost if node 0's launcher died or is unreachable. failure_elsewhere() then returns
// true, so that this node stops its ranks, and judge() reports the loss. No function except
// agree_on_port() throws because of the loss.
//
// Node 0 watches the heartbeats of all other nodes and reads one report from each. It then
// publishes one verdict, which each other node reads. The number of messages is thus proportional
// to the number of nodes. The other nodes need not watch node 0, because they lose the store if
// node 0's launcher dies.
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

  // Returns the port of the ranks' store. On node 0, chooses a free port and publishes it. On other
  // nodes, waits up to two minutes for node 0's port. Returns nothing if `give_up` returns true or
  // if failure_elsewhere() does. Throws Error(kPeer) if node 0 publishes no port in time, or if a
  // call of the store fails here. Must be called before ranks are started.
  std::optional<int> agree_on_port(const std::function<bool()>& give_up);

  // Returns when failure_elsewhere() should be called next.
  Clock::time_point next_look() const { return next_look_; }
  // Returns whether a node has aborted the attempt, a launcher is gone, or the store is lost.
  // Requests messages from the store at most once per look_interval(); the next call after 25 ms
  // reads the answers.
  bool failure_elsewhere();

  // Requests that all nodes stop their ranks. Does nothing if the attempt is already aborted, by an
  // earlier call or by another node.
  void abort_all();
  void publish(const NodeReport& report);
  // On node 0, waits until every launcher has reported or is gone; on other nodes, waits for node
  // 0's verdict. Stops waiting if the store is lost. `pause` must sleep for a short time between
  // polls, and return true if the user ends the wait. Returns false if the user ended the wait, and
  // otherwise true.
  bool collect(const std::function<bool()>& pause);

  // Adds to `result` the cause of the failure, the reason for a loss of the store, and the facts
  // about the other nodes: how their ranks ended, failed launchers, silent nodes, and whether the
  // user ended the job. On node 0, also publishes these facts as the verdict for the other nodes.
  void judge(JobResult& result);

 private:
  struct Heartbeat {
    std::string last;   // value of the last heartbeat; empty: none was read yet
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
  std::string lost_;               // why the store is lost; empty: it is not lost
  bool aborted_ = false;           // whether this or another node has aborted the attempt
  int64_t looks_since_abort_ = 0;  // number of polls since then
  // Set only on node 0: the other nodes' reports, the nodes whose launchers count as gone, and the
  // other nodes' heartbeats.
  std::map<int64_t, NodeReport> reports_;
  std::set<int64_t> silent_;
  std::map<int64_t, Heartbeat> heartbeats_;
  std::optional<Verdict> verdict_;  // node 0's verdict; not set on node 0
  Clock::time_point next_look_ = Clock::now();
  // Whether the next poll only reads the answers that the previous poll has requested.
  bool glances_ = false;
};

// Publishes that this launcher gives up because of `error`. The other nodes then stop their ranks
// and report `error`. Does nothing for a job of one node. Ignores errors of the store.
void tell_failure(const JobSpec& spec, const Error& error);

}  // namespace am::launch
