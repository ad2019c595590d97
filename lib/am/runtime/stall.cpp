#include "am/runtime/stall.h"

#include <algorithm>
#include <set>
#include <utility>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::runtime {

namespace {

// Identifies a collective that a rank waits for, with the ranks that must issue it.
struct Wanted {
  std::string communicator;
  uint64_t sequence = 0;
  std::vector<int64_t> ranks;
};

Wanted wanted(const Collective& collective) {
  return {collective.communicator->name, collective.sequence, collective.communicator->ranks};
}

std::optional<Wanted> waiting_of(const PeerView& peer) {
  if (!peer.state || peer.state->waiting_op.empty()) return std::nullopt;
  const RankState& state = *peer.state;
  return Wanted{state.waiting_communicator, state.waiting_sequence, state.waiting_ranks};
}

// Follows waits from rank to rank; see Note [Finding the missing rank] in stall.h.
class Walk {
 public:
  Walk(const std::map<int64_t, PeerView>& peers, double silent_limit)
      : peers_(peers), silent_limit_(silent_limit) {}

  bool is_silent(const PeerView& peer) const {
    return !peer.state || (silent_limit_ > 0.0 && peer.silent_seconds >= silent_limit_);
  }

  // Returns the ranks of `collective`, except `waiter`, that failed, are silent, or have not issued
  // the collective.
  std::vector<int64_t> blockers(const Wanted& collective, int64_t waiter) const {
    std::vector<int64_t> found;
    for (const int64_t rank : collective.ranks) {
      if (rank == waiter) continue;
      const PeerView& peer = view(rank);
      const bool issued = peer.state && peer.state->issued.contains(collective.communicator) &&
                          peer.state->issued.at(collective.communicator) >= collective.sequence;
      if (!issued || is_silent(peer) || !peer.state->failed.empty()) found.push_back(rank);
    }
    return found;
  }

  // Follows the chain of waits from `collective`: first the ranks that block this collective, then
  // the ranks that block the collectives in which the former ranks wait, and so on. Adds to `ends_`
  // the ranks at which the chain ends: ranks that failed, are silent, or wait for no other rank.
  void follow(const Wanted& collective, int64_t waiter) {
    for (const int64_t rank : blockers(collective, waiter)) {
      if (!seen_.insert(rank).second) continue;
      const PeerView& peer = view(rank);
      const auto next = waiting_of(peer);
      const bool ends =
          is_silent(peer) || !peer.state->failed.empty() || !next || blockers(*next, rank).empty();
      if (ends) {
        ends_.insert(rank);
      } else {
        follow(*next, rank);
      }
    }
  }

  const PeerView& view(int64_t rank) const {
    static const PeerView kUnknown;
    const auto found = peers_.find(rank);
    return found == peers_.end() ? kUnknown : found->second;
  }
  const std::set<int64_t>& seen() const { return seen_; }

  // Returns the ranks in `ends_` that failed or are silent. All other ranks are assumed to hang as
  // a consequence of these. If no rank in `ends_` failed or is silent, returns all of `ends_`.
  std::vector<int64_t> culprits() const {
    std::vector<int64_t> worst;
    for (const int64_t rank : ends_) {
      const PeerView& peer = view(rank);
      if (is_silent(peer) || !peer.state->failed.empty()) worst.push_back(rank);
    }
    return worst.empty() ? std::vector<int64_t>(ends_.begin(), ends_.end()) : worst;
  }

 private:
  const std::map<int64_t, PeerView>& peers_;
  double silent_limit_;
  std::set<int64_t> seen_;  // ranks found on the chain of waits
  std::set<int64_t> ends_;  // ranks at which the chain ends; see follow()
};

std::string sentence(int64_t rank, const PeerView& peer, bool silent) {
  if (!peer.state) return cat("rank ", rank, " did not arrive: it never reported its state");
  if (!peer.state->failed.empty()) return cat("rank ", rank, " failed: ", peer.state->failed);
  const char* what =
      silent ? " gives no sign of life: stopped, dead or unreachable" : " did not arrive";
  return cat("rank ", rank, what, "; last heard ", format_duration(peer.silent_seconds),
             " ago: ", peer.state->whereabouts());
}

}  // namespace

Stall find_stall(const Collective& waiting, int64_t self, const std::map<int64_t, PeerView>& peers,
                 double silent_limit_seconds) {
  constexpr size_t kMostSentences = 8;
  Walk walk(peers, silent_limit_seconds);
  walk.follow(wanted(waiting), self);
  Stall stall;
  stall.missing = walk.culprits();
  // No rank blocks the collective: all ranks have arrived, so the communication itself is slow.
  if (walk.seen().empty()) return stall;
  std::vector<std::string> lines;
  stall.circle = stall.missing.empty();
  if (stall.circle) {  // true: each rank on the chain waits for another rank
    stall.missing.assign(walk.seen().begin(), walk.seen().end());
    std::erase(stall.missing, self);
    lines.emplace_back("the ranks wait for each other: they call collectives in different orders");
  }
  for (size_t i = 0; i < std::min(kMostSentences, stall.missing.size()); ++i) {
    const PeerView& peer = walk.view(stall.missing[i]);
    lines.push_back(sentence(stall.missing[i], peer, walk.is_silent(peer)));
  }
  if (stall.missing.size() > kMostSentences) {
    lines.push_back(cat("and ", stall.missing.size() - kMostSentences,
                        " more; all of them: ", ranks_text(stall.missing)));
  }
  stall.text = join(lines, "\n");
  return stall;
}

std::vector<int64_t> ranks_to_ask(const Collective& waiting, int64_t self,
                                  const std::map<int64_t, PeerView>& peers) {
  const Walk walk(peers, /*silent_limit=*/0.0);
  std::set<int64_t> ranks;
  std::set<int64_t> followed;
  std::vector<std::pair<Wanted, int64_t>> open = {{wanted(waiting), self}};
  while (!open.empty()) {
    const auto [collective, waiter] = std::move(open.back());
    open.pop_back();
    ranks.insert(collective.ranks.begin(), collective.ranks.end());
    for (const int64_t rank : walk.blockers(collective, waiter)) {
      if (!followed.insert(rank).second) continue;
      if (auto next = waiting_of(walk.view(rank))) open.emplace_back(*std::move(next), rank);
    }
  }
  ranks.erase(self);
  return {ranks.begin(), ranks.end()};
}

}  // namespace am::runtime
