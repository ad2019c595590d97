#include "am/launch/nodes/peer_nodes.h"

#include <algorithm>
#include <thread>

#include "am/base/text.h"
#include "am/launch/environment/port.h"

namespace am::launch {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(500);
constexpr auto kPortWait = std::chrono::minutes(2);
// After so many looks at the same heartbeat its launcher may have ended: its report says how.
constexpr int64_t kSuspicious = 4;

}  // namespace

PeerNodes::PeerNodes(const JobSpec& spec)
    : spec_(spec),
      rendezvous_(*spec.store, spec.run_id, spec.restart_count, spec.node_rank, spec.num_nodes) {}

// Once lost, the store stays lost.
void PeerNodes::attempt(const std::function<void()>& call) {
  if (!lost_.empty()) return;
  try {
    call();
  } catch (const Error& error) {
    lost_ = error.what();
  }
}

std::optional<int> PeerNodes::agree_on_port(const std::function<bool()>& give_up) {
  if (spec_.node_rank == 0) {
    const int port = free_port();
    rendezvous_.publish_port(port);
    return port;
  }
  const auto deadline = Clock::now() + kPortWait;
  while (Clock::now() < deadline) {
    if (const auto port = rendezvous_.port()) return port;
    if (give_up() || failure_elsewhere()) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Error(ErrorKind::kPeer, "node 0's launcher did not say at which port its rank 0 listens",
              "start am-run on node 0 with the same --nnodes, --rdzv and command");
}

bool PeerNodes::failure_elsewhere() {
  if (Clock::now() >= next_look_) {
    next_look_ = Clock::now() + kLookEvery;
    if (aborted_) ++looks_since_abort_;
    attempt([this] { hear_abort(); });
    if (spec_.node_rank == 0) attempt([this] { watch_heartbeats(); });
  }
  return aborted_ || !lost_.empty();
}

// Nothing when it was heard before, too.
std::optional<NodeReport> PeerNodes::unheard_report(int64_t node) {
  if (node == spec_.node_rank || reports_.count(node) > 0) return std::nullopt;
  return rendezvous_.report_of(node);
}

// A launcher that gave up is gone soon, and node 0's takes the store with it: its report is read
// now. That of one that still waits may change, and is read at the end.
void PeerNodes::hear_abort() {
  const auto aborting = rendezvous_.aborting_node();
  if (!aborting) return;
  aborted_ = true;
  auto report = unheard_report(*aborting);
  if (report && report->launcher_error) reports_.emplace(*aborting, *std::move(report));
}

void PeerNodes::watch_heartbeats() {
  for (int64_t node = 1; node < spec_.num_nodes; ++node) {
    if (reports_.count(node) > 0) continue;
    Heartbeat& heartbeat = heartbeats_[node];
    if (const auto now = rendezvous_.heartbeat_of(node)) {
      heartbeat.still = *now == heartbeat.last ? heartbeat.still + 1 : 0;
      heartbeat.last = *now;
    }
    if (heartbeat.still >= kSuspicious) {
      if (auto report = unheard_report(node)) reports_.emplace(node, *std::move(report));
    }
    if (reports_.count(node) > 0 || !is_silent(heartbeat)) continue;
    NodeReport report;
    report.silent = true;
    rendezvous_.publish_for(node, report);
    reports_.emplace(node, report);
    abort_all();
  }
}

// Looks are counted, not seconds: whoever was stopped himself must not blame the others. A launcher
// that was never heard may be started later, but not after a failure.
bool PeerNodes::is_silent(const Heartbeat& heartbeat) const {
  const std::chrono::duration<double> between = kLookEvery;
  const auto looks = static_cast<int64_t>(spec_.silence_seconds / between.count());
  if (heartbeat.last.empty()) return looks_since_abort_ > looks / 2;
  return heartbeat.still >= (aborted_ ? looks / 2 : looks);
}

void PeerNodes::abort_all() {
  if (aborted_) return;
  aborted_ = true;
  attempt([this] { rendezvous_.raise_abort(); });
}

void PeerNodes::publish(const NodeReport& report) {
  attempt([&] { rendezvous_.publish(report); });
}

bool PeerNodes::heard_all() const {
  for (int64_t node = 0; node < spec_.num_nodes; ++node) {
    if (node != spec_.node_rank && reports_.count(node) == 0) return false;
  }
  return true;
}

bool PeerNodes::collect(const std::function<bool()>& pause) {
  for (;;) {
    for (int64_t node = 0; node < spec_.num_nodes; ++node) {
      attempt([&] {
        if (auto report = unheard_report(node)) reports_.emplace(node, *std::move(report));
      });
    }
    failure_elsewhere();
    if (heard_all() || !lost_.empty()) return true;
    if (pause()) return false;
  }
}

void PeerNodes::add_to(JobResult& result) const {
  for (const auto& [node, report] : reports_) {
    result.ranks.insert(result.ranks.end(), report.ranks.begin(), report.ranks.end());
    result.ended_by_user = result.ended_by_user || report.ended_by_user;
    if (report.silent) result.silent_nodes.push_back(node);
    if (report.launcher_error) result.failed_launchers.push_back({node, *report.launcher_error});
  }
  std::sort(result.ranks.begin(), result.ranks.end(),
            [](const RankExit& a, const RankExit& b) { return a.rank < b.rank; });
  if (!heard_all()) result.store_error = lost_;
}

void tell_failure(const JobSpec& spec, const Error& error) {
  if (spec.store == nullptr || spec.num_nodes == 1) return;
  try {
    NodeRendezvous rendezvous(*spec.store, spec.run_id, spec.restart_count, spec.node_rank,
                              spec.num_nodes);
    NodeReport report;
    report.launcher_error = rank_error(error, -1);
    rendezvous.publish(report);
    rendezvous.raise_abort();
  } catch (const Error&) {
    // The store is lost: the others see that for themselves.
  }
}

}  // namespace am::launch
