#include "am/launch/nodes/peer_nodes.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "am/base/text.h"
#include "am/launch/cause/first_cause.h"
#include "am/launch/environment/port.h"

namespace am::launch {
namespace {

// Time between requesting messages from the store and reading the answers.
constexpr auto kGlanceAfter = std::chrono::milliseconds(25);
// Longest time for which a node waits for the port that node 0 chooses.
constexpr auto kPortWait = std::chrono::minutes(2);
// Number of consecutive polls with an unchanged heartbeat after which a launcher may have ended.
// Node 0 then reads this launcher's report.
constexpr int64_t kSuspicious = 4;

}  // namespace

PeerNodes::PeerNodes(const JobSpec& spec)
    : spec_(spec),
      rendezvous_(*spec.store, spec.run_id, spec.restart_count, spec.node_rank, spec.num_nodes) {}

// Calls `call` unless the store is lost. If `call` throws an Error, the store counts as lost from
// then on.
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
  throw Error(ErrorKind::kPeer, "node 0's launcher published no port for the ranks' rendezvous",
              "start am-run on node 0 with the same --nnodes, --rdzv and command");
}

bool PeerNodes::failure_elsewhere() {
  if (Clock::now() >= next_look_) {
    const bool look = !std::exchange(glances_, !glances_);
    next_look_ =
        Clock::now() + (look ? kGlanceAfter : look_interval(spec_.num_nodes) - kGlanceAfter);
    if (look && aborted_) ++looks_since_abort_;
    attempt([this] { hear_abort(); });
    if (look && spec_.node_rank == 0) attempt([this] { watch_heartbeats(); });
  }
  return aborted_ || !lost_.empty();
}

void PeerNodes::hear_report(int64_t node) {
  if (heard(node)) return;
  if (auto report = rendezvous_.report_of(node)) reports_.emplace(node, *std::move(report));
}

void PeerNodes::hear_verdict() {
  if (!verdict_) verdict_ = rendezvous_.verdict(spec_.nproc);
}

// Checks whether a node has aborted the attempt. After an abort, node 0's launcher, which serves
// the store, may exit soon. This node therefore reads the verdict as soon as node 0 has published
// it.
void PeerNodes::hear_abort() {
  if (!aborted_) aborted_ = rendezvous_.aborting_node().has_value();
  if (aborted_ && spec_.node_rank != 0) hear_verdict();
}

void PeerNodes::watch_heartbeats() {
  for (int64_t node = 1; node < spec_.num_nodes; ++node) {
    if (heard(node)) continue;
    Heartbeat& heartbeat = heartbeats_[node];
    if (const auto now = rendezvous_.heartbeat_of(node)) {
      heartbeat.still = *now == heartbeat.last ? heartbeat.still + 1 : 0;
      heartbeat.last = *now;
      rendezvous_.heartbeat_of(node);  // makes the BackgroundStore request the next heartbeat
    }
    if (heartbeat.still >= kSuspicious) hear_report(node);
    if (heard(node) || !is_silent(heartbeat)) continue;
    silent_.insert(node);
    abort_all();
  }
}

// Returns whether a launcher counts as gone: its heartbeat has not changed for silence_seconds
// (JobSpec), or for half of this time after a failure. Counts polls instead of seconds, because
// this process may have been suspended in between. A launcher without any heartbeat may not have
// been started yet, so it counts as gone only after a failure.
bool PeerNodes::is_silent(const Heartbeat& heartbeat) const {
  const std::chrono::duration<double> between = look_interval(spec_.num_nodes);
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

bool PeerNodes::heard(int64_t node) const {
  return node == spec_.node_rank || reports_.contains(node) || silent_.contains(node);
}

std::vector<int64_t> PeerNodes::unheard_nodes() const {
  std::vector<int64_t> nodes;
  for (int64_t node = 0; node < spec_.num_nodes; ++node) {
    if (!heard(node)) nodes.push_back(node);
  }
  return nodes;
}

bool PeerNodes::heard_all() const {
  return spec_.node_rank == 0 ? unheard_nodes().empty() : verdict_.has_value();
}

bool PeerNodes::collect(const std::function<bool()>& pause) {
  for (;;) {
    attempt([this] {
      if (spec_.node_rank != 0) return hear_verdict();
      for (const int64_t node : unheard_nodes()) hear_report(node);
    });
    failure_elsewhere();
    if (heard_all() || !lost_.empty()) return true;
    if (pause()) return false;
  }
}

void PeerNodes::judge(JobResult& result) {
  if (spec_.node_rank == 0) {
    judge_for_all(result);
  } else if (verdict_) {
    add(*std::move(verdict_), result);
  } else {
    result.cause = find_cause(result.ranks, spec_.nproc);
  }
  if (!heard_all()) result.store_error = lost_;
}

void PeerNodes::judge_for_all(JobResult& result) {
  for (const auto& [node, report] : reports_) {
    result.ranks.insert(result.ranks.end(), report.ranks.begin(), report.ranks.end());
    result.ended_by_user = result.ended_by_user || report.ended_by_user;
    if (report.launcher_error) result.failed_launchers.push_back({node, *report.launcher_error});
  }
  result.silent_nodes.assign(silent_.begin(), silent_.end());
  std::sort(result.ranks.begin(), result.ranks.end(),
            [](const RankExit& a, const RankExit& b) { return a.rank < b.rank; });
  result.cause = find_cause(result.ranks, spec_.nproc);
  attempt([&] {
    rendezvous_.publish(Verdict{result.cause, result.ranks, result.ended_by_user,
                                result.silent_nodes, result.failed_launchers, unheard_nodes()});
  });
}

void tell_failure(const JobSpec& spec, const Error& error) {
  if (spec.store == nullptr || spec.num_nodes == 1) return;
  try {
    NodeRendezvous rendezvous(*spec.store, spec.run_id, spec.restart_count, spec.node_rank,
                              spec.num_nodes);
    NodeReport report;
    report.launcher_error = rank_error(error, -1);
    if (spec.node_rank == 0) {
      rendezvous.publish(Verdict{.failed_launchers = {{0, *report.launcher_error}}});
    } else {
      rendezvous.publish(report);
    }
    rendezvous.raise_abort();
  } catch (const Error&) {
    // The store is lost. The other nodes notice this by themselves.
  }
}

}  // namespace am::launch
