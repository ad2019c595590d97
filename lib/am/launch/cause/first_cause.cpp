#include "am/launch/cause/first_cause.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

// Note [Which rank failed first]
//
// When one rank dies, its peers fail too, within milliseconds, because their connections close.
// When one rank hangs, its peers report a collective that timed out, and the hanging rank reports
// nothing. These rules separate the cause from its consequences:
//   1. A rank that ended because the launcher stopped it (RankExit::stopped) is the cause only if
//      other ranks waited for it (rule 3) or it was suspended (rule 7).
//   2. A rank that died by itself (by a signal, without a report, or with its own error) is the
//      best cause.
//   3. Next come the ranks that are missing at a collective. The ranks that report them (kind
//      "hang") are witnesses. A missing rank that is itself a witness waits for a further rank, so
//      it is not the cause. In a cycle (ranks that wait for each other in different collectives)
//      the cause is the first rank that the earliest witness reports as missing.
//   4. A rank that lost a peer (kind "peer"), or that reports a hang without missing ranks, is the
//      cause only if rules 2 and 3 find none.
//   5. Among equally good causes, the earliest counts. The time of a failure is the time in the
//      rank's error report, at which the error was thrown; without a report, the time at which the
//      launcher saw the rank's end. Clocks of nodes deviate slightly, but the time rarely decides.
//   6. Torch's own report (kind "elastic") does not show whether the error is a lost peer, and its
//      time is imprecise. A rank killed by a signal up to a second after this report is the better
//      cause: the launcher notices a death later than a report, especially if the dying rank writes
//      a core file.
//   7. Ranks of programs other than automesh report no hang. If the best cause is neither a hang
//      nor a death by a signal, a rank that was suspended (SIGSTOP, a debugger) when the first
//      failure was noticed is the cause instead.
//   8. If the best cause did not die by a signal, its error or output is about a closed connection,
//      and a peer had already ended with status 0, then this peer left too early and is the cause.

namespace am::launch {
namespace {

bool is_witness(const RankExit& rank) {
  return rank.signal == 0 && rank.error && rank.error->kind == kHangError &&
         !rank.error->missing.empty();
}

double failure_time(const RankExit& rank) {
  return rank.error && rank.error->time > 0.0 ? rank.error->time : rank.time;
}

bool is_consequence(const RankExit& rank) {
  return rank.signal == 0 && rank.error &&
         (rank.error->kind == kPeerError || rank.error->kind == kHangError);
}

bool is_elastic(const RankExit& rank) {
  return rank.signal == 0 && rank.error && rank.error->kind == kElasticError;
}

enum class Quality { kDied, kWitness, kLostPeer };

Quality quality(const RankExit& rank) {
  if (is_witness(rank)) return Quality::kWitness;
  return is_consequence(rank) ? Quality::kLostPeer : Quality::kDied;
}

std::optional<size_t> index_of(std::span<const RankExit> ranks, int64_t rank) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].rank == rank) return i;
  }
  return std::nullopt;
}

// Returns the first missing rank that is not itself a witness. If every missing rank is a witness
// (a cycle of ranks that wait for each other), returns the first rank that `first_witness` reports
// as missing.
FirstCause missing_rank(std::span<const RankExit> ranks, size_t first_witness,
                        int64_t ranks_per_node) {
  std::vector<size_t> witnesses = {first_witness};
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i != first_witness && !ranks[i].stopped && is_witness(ranks[i])) witnesses.push_back(i);
  }
  std::stable_sort(witnesses.begin() + 1, witnesses.end(), [&](size_t a, size_t b) {
    return failure_time(ranks[a]) < failure_time(ranks[b]);
  });
  const auto waits_too = [&](int64_t rank) {
    const auto at = index_of(ranks, rank);
    return at && std::find(witnesses.begin(), witnesses.end(), *at) != witnesses.end();
  };
  FirstCause cause;
  cause.witness = first_witness;
  cause.rank = ranks[first_witness].error->missing.front();
  for (const size_t witness : witnesses) {
    const auto& missing = ranks[witness].error->missing;
    const auto silent = std::find_if_not(missing.begin(), missing.end(), waits_too);
    if (silent == missing.end()) continue;
    cause.witness = witness;
    cause.rank = *silent;
    break;
  }
  cause.end = index_of(ranks, cause.rank);
  cause.node = cause.end            ? ranks[*cause.end].node
               : ranks_per_node > 0 ? cause.rank / ranks_per_node
                                    : ranks[*cause.witness].node;
  return cause;
}

// Rule 6: returns the first rank that died by a signal. Ignores deaths more than one second after
// `time`; returns nullopt if there is no other death.
std::optional<size_t> death_near(std::span<const RankExit> ranks, double time) {
  constexpr double kDoubt = 1.0;
  std::optional<size_t> nearest;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool died = ranks[i].signal != 0 && !ranks[i].stopped;
    if (!died || failure_time(ranks[i]) > time + kDoubt) continue;
    if (!nearest || failure_time(ranks[i]) < failure_time(ranks[*nearest])) nearest = i;
  }
  return nearest;
}

// Returns whether the rank's error or output contains a text with which c10d, sockets or NCCL
// report a connection that a peer has closed.
bool speaks_of_lost_peer(const RankExit& rank) {
  static constexpr std::array<std::string_view, 6> kWords = {
      "onnection closed by peer", "onnection reset by peer", "onnection was closed", "Broken pipe",
      "recvBytes failed",         "remote process exited"};
  const auto says = [](std::string_view text) {
    return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view words) {
      return text.find(words) != std::string_view::npos;
    });
  };
  return (rank.error && says(rank.error->message)) ||
         std::any_of(rank.tail.begin(), rank.tail.end(), says);
}

// Rule 7: returns a suspended rank, which replaces `first` as the cause. Returns nullopt if `first`
// died by a signal or no rank was suspended.
std::optional<size_t> suspended_rank(std::span<const RankExit> ranks, size_t first) {
  if (ranks[first].signal != 0) return std::nullopt;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].suspended) return i;
  }
  return std::nullopt;
}

// Rule 8: returns the rank that left too early, which replaces `first` as the cause. Returns
// nullopt if `first` died by a signal, if its error and output are not about a closed connection,
// or if no rank left too early.
std::optional<size_t> early_leaver(std::span<const RankExit> ranks, size_t first) {
  if (ranks[first].signal != 0 || !speaks_of_lost_peer(ranks[first])) return std::nullopt;
  std::optional<size_t> earliest;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].ok() || ranks[i].time > ranks[first].time) continue;
    if (!earliest || ranks[i].time < ranks[*earliest].time) earliest = i;
  }
  return earliest;
}

}  // namespace

bool may_be_consequence(const RankExit& rank) { return is_consequence(rank) || is_elastic(rank); }

std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node) {
  std::optional<size_t> first;
  const auto order = [&](size_t i) {
    return std::make_tuple(quality(ranks[i]), failure_time(ranks[i]), ranks[i].rank);
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].ok() || ranks[i].stopped) continue;
    if (!first || order(i) < order(*first)) first = i;
  }
  if (!first) return std::nullopt;
  if (is_elastic(ranks[*first])) {
    first = death_near(ranks, failure_time(ranks[*first])).value_or(*first);
  }
  if (is_witness(ranks[*first])) return missing_rank(ranks, *first, ranks_per_node);
  if (const auto suspended = suspended_rank(ranks, *first)) {
    first = suspended;
  } else if (const auto leaver = early_leaver(ranks, *first)) {
    first = leaver;
  }
  return FirstCause{ranks[*first].rank, ranks[*first].node, *first, std::nullopt};
}

}  // namespace am::launch
