#include "am/launch/job_result.h"

#include <cstring>
#include <map>
#include <tuple>

#include "am/base/text.h"

// Note [Which rank failed first]
//
// When one rank dies, its peers fail too, within milliseconds: their connections close. Three facts
// tell the cause from the consequences:
//   1. Ranks that ended because the launcher told them to are never the cause (RankExit::stopped).
//   2. A rank whose own error says "my peer went away" (kind "peer") is a cause only when no rank
//   has a
//      better one. A rank that died by a signal, or failed without a report, is a better one.
//   3. Among equals the earliest counts: by the time in the error file, which is when the error was
//      thrown, else by the time when the launcher saw the end. One clock: all ranks are on this
//      machine.
// With several machines each launcher judges its own ranks; where all of them only lost a peer,
// describe() says that the cause is elsewhere.

namespace am::launch {
namespace {

bool lost_a_peer(const RankExit& rank) {
  return rank.signal == 0 && rank.error && rank.error->kind == kPeerError;
}

double failure_time(const RankExit& rank) {
  return rank.error && rank.error->time > 0.0 ? rank.error->time : rank.time;
}

std::string rank_list(const std::vector<int64_t>& ranks) {
  constexpr size_t kMost = 8;
  if (ranks.size() > kMost) {
    const std::vector<int64_t> first(ranks.begin(), ranks.begin() + kMost);
    return cat("ranks ", join(first, ", "), " and ", ranks.size() - kMost, " more");
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(ranks, ", ", " and "));
}

// Continuation lines stand below the first one.
void append_indented(std::string& out, std::string_view label, std::string_view text) {
  const std::vector<std::string> lines = split(trim(text), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    out += cat("  ", i == 0 ? std::string(label) : std::string(label.size(), ' '), lines[i], "\n");
  }
}

void append_cause(std::string& out, const RankExit& cause) {
  if (cause.error) {
    append_indented(out, "", cause.error->message);
    if (!cause.error->hint.empty()) append_indented(out, "help: ", cause.error->hint);
    if (cause.error->step) out += cat("  at step ", *cause.error->step, "\n");
  } else if (cause.tail.empty()) {
    out += "  it wrote nothing\n";
  } else {
    out += "  the last lines of its output:\n";
    for (const std::string& line : cause.tail) out += cat("    | ", line, "\n");
  }
  if (!cause.log.empty()) out += cat("  log: ", cause.log.string(), "\n");
}

// One line for each way in which the other ranks ended, then what each was doing.
void append_others(std::string& out, const JobResult& result) {
  std::map<std::string, std::vector<int64_t>> ends;
  for (size_t i = 0; i < result.ranks.size(); ++i) {
    const RankExit& rank = result.ranks[i];
    if (i == result.cause || rank.ok()) continue;
    ends[cat(rank.stopped ? "stopped by the launcher" : "failed after it", ": ", end_text(rank))]
        .push_back(rank.rank);
  }
  for (const auto& [end, ranks] : ends) out += cat("  ", rank_list(ranks), " ", end, "\n");
  for (const RankExit& rank : result.ranks) {
    if (!rank.error || rank.error->last_collective.empty()) continue;
    out += cat("  rank ", rank.rank, " last collective: ", rank.error->last_collective, "\n");
  }
}

}  // namespace

std::optional<size_t> find_cause(std::span<const RankExit> ranks) {
  std::optional<size_t> cause;
  const auto order = [&](size_t i) {
    return std::make_tuple(lost_a_peer(ranks[i]), failure_time(ranks[i]), ranks[i].rank);
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].ok() || ranks[i].stopped) continue;
    if (!cause || order(i) < order(*cause)) cause = i;
  }
  return cause;
}

std::string end_text(const RankExit& rank) {
  if (rank.signal == 0) return cat("exit status ", rank.exit_status);
  const char* name = ::sigabbrev_np(rank.signal);
  const char* words = ::sigdescr_np(rank.signal);
  if (name == nullptr || words == nullptr) return cat("signal ", rank.signal);
  return cat("signal SIG", name, " (", words, ")");
}

std::string describe(const JobResult& result) {
  if (result.exit_status == 0) return {};
  std::string out;
  if (!result.cause) {
    out = cat(result.killed ? "the job was killed" : "the job was stopped",
              " before its ranks had finished\n");
    append_others(out, result);
    return out;
  }
  const RankExit& cause = result.ranks[*result.cause];
  out = cat("rank ", cause.rank, " on node ", result.node_rank, " failed: ", end_text(cause), "\n");
  append_cause(out, cause);
  if (lost_a_peer(cause) && result.num_nodes > 1) {
    out += "  the ranks of this machine only lost a peer: the cause is on another machine\n";
  }
  append_others(out, result);
  return out;
}

}  // namespace am::launch
