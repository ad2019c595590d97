#include "am/launch/peer_nodes.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/port.h"

namespace am::launch {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(500);
constexpr auto kPortWait = std::chrono::minutes(2);

}  // namespace

PeerNodes::PeerNodes(const JobSpec& spec)
    : spec_(spec),
      board_(*spec.board, spec.run_id, spec.restart_count, spec.node_rank, spec.num_nodes) {}

// Once lost, the board stays lost: each call on it might wait for its own time limit.
void PeerNodes::attempt(const std::function<void()>& call) {
  if (!lost_.empty()) return;
  try {
    call();
  } catch (const Error& error) {
    lost_ = error.what();
  }
}

int PeerNodes::agree_on_port(const std::function<bool()>& give_up) {
  if (spec_.node_rank == 0) {
    const int port = free_port();
    board_.publish_port(port);
    return port;
  }
  const auto deadline = Clock::now() + kPortWait;
  while (Clock::now() < deadline && !give_up()) {
    if (const auto port = board_.port()) return *port;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Error(ErrorKind::kPeer, "node 0's launcher did not say at which port its rank 0 listens",
              "start am-run on node 0 with the same --nnodes, --rdzv and command");
}

bool PeerNodes::failure_elsewhere() {
  if (Clock::now() >= next_look_) {
    attempt([this] { rung_ = rung_ || board_.bell_rung(); });
    next_look_ = Clock::now() + kLookEvery;
  }
  return rung_ || !lost_.empty();
}

void PeerNodes::ring() {
  rung_ = true;
  attempt([this] { board_.ring_bell(); });
}

void PeerNodes::publish(const NodeReport& report) {
  attempt([&] { board_.publish(report); });
}

void PeerNodes::collect(double seconds, const std::function<bool()>& pause) {
  std::optional<Clock::time_point> deadline;
  collected_ = true;
  for (;;) {
    for (int64_t node = 0; node < spec_.num_nodes; ++node) {
      if (node == spec_.node_rank || reports_.count(node) > 0) continue;
      attempt([&] {
        if (auto report = board_.report_of(node)) reports_.emplace(node, *std::move(report));
      });
    }
    const bool all = static_cast<int64_t>(reports_.size()) + 1 == spec_.num_nodes;
    if (all || !lost_.empty()) return;
    if (!deadline && failure_elsewhere()) {
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(seconds));
    }
    if (deadline && Clock::now() >= *deadline) return;
    if (pause()) return;
  }
}

void PeerNodes::add_to(JobResult& result) const {
  for (const auto& [node, report] : reports_) {
    result.ranks.insert(result.ranks.end(), report.ranks.begin(), report.ranks.end());
    result.ended_by_user = result.ended_by_user || report.ended_by_user;
  }
  std::sort(result.ranks.begin(), result.ranks.end(),
            [](const RankExit& a, const RankExit& b) { return a.rank < b.rank; });
  result.board_error = lost_;
  if (!collected_ || !lost_.empty()) return;
  for (int64_t node = 0; node < spec_.num_nodes; ++node) {
    if (node != spec_.node_rank && reports_.count(node) == 0) result.silent_nodes.push_back(node);
  }
}

}  // namespace am::launch
