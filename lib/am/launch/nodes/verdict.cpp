#include "am/launch/nodes/verdict.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "am/base/json_integer.h"
#include "am/base/rank_runs.h"
#include "am/launch/nodes/node_report.h"

namespace am::launch {
namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kMostMessage = 4 << 10;
constexpr size_t kMostLaunchers = 4;
constexpr size_t kMostFull = 2;  // ranks listed with all fields: the cause and the witness
// Largest number of ranks in a parsed verdict, so that an invalid text cannot exhaust memory.
constexpr size_t kMostRanks = 1 << 20;

// How a rank ended, for ranks that are neither the cause nor the witness of the failure. Ranks for
// which these fields are equal share one entry of the verdict.
struct KindOfEnd {
  int exit_status = 0;
  int signal = 0;
  bool stopped = false;
  bool suspended = false;
  bool early = false;  // the rank succeeded before the rank that caused the failure ended
  std::string last_collective;

  auto operator<=>(const KindOfEnd&) const = default;
};

// The ranks with equal KindOfEnd.
struct Alike {
  std::vector<int64_t> ranks;
  double last = 0.0;  // when the last of these ranks ended, in seconds since the epoch
};

std::string shortened(const std::string& text) {
  return text.size() <= kMostMessage ? text : text.substr(0, kMostMessage) + " ...";
}

Json error_json(RankError error) {
  const Json missing = rank_runs(error.missing);
  error.missing.clear();
  error.message = shortened(error.message);
  error.hint = shortened(error.hint);
  Json json = launch::to_json(error);
  json["missing"] = missing;
  return json;
}

std::optional<RankError> error_from(Json json) {
  const std::vector<int64_t> missing = ranks_in_runs(json.value("missing", Json::array()));
  json["missing"] = Json::array();
  auto error = rank_error_from(json);
  if (error) error->missing = missing;
  return error;
}

// Returns all fields of the rank as JSON. Writes the list RankError::missing as runs (rank_runs.h),
// and shortens a long message or hint.
Json full_json(RankExit rank) {
  const auto error = std::exchange(rank.error, std::nullopt);
  Json json = launch::to_json(rank);
  if (error) json["error"] = error_json(*error);
  return json;
}

RankExit full_from(Json json) {
  const Json error = json.value("error", Json());
  json.erase("error");
  RankExit rank = rank_exit_from(json);
  if (!error.is_null()) rank.error = error_from(error);
  return rank;
}

std::set<size_t> told_in_full(const Verdict& verdict) {
  std::set<size_t> ends;
  if (!verdict.cause) return ends;
  if (verdict.cause->end) ends.insert(*verdict.cause->end);
  if (verdict.cause->witness) ends.insert(*verdict.cause->witness);
  return ends;
}

std::map<KindOfEnd, Alike> by_kind(const Verdict& verdict) {
  const std::set<size_t> full = told_in_full(verdict);
  const bool has_end = verdict.cause && verdict.cause->end;
  const double end = has_end ? verdict.ranks[*verdict.cause->end].time : 0.0;
  std::map<KindOfEnd, Alike> kinds;
  for (size_t i = 0; i < verdict.ranks.size(); ++i) {
    if (full.contains(i)) continue;
    const RankExit& rank = verdict.ranks[i];
    const bool early = rank.ok() && rank.time > 0.0 && rank.time <= end;
    Alike& alike = kinds[{rank.exit_status, rank.signal, rank.stopped, rank.suspended, early,
                          rank.error ? rank.error->last_collective : std::string()}];
    alike.ranks.push_back(rank.rank);
    alike.last = std::max(alike.last, rank.time);
  }
  return kinds;
}

Json end_json(const KindOfEnd& end, const Alike& alike) {
  Json json = {
      {"ranks", rank_runs(alike.ranks)}, {"exit_status", end.exit_status}, {"signal", end.signal},
      {"stopped", end.stopped},          {"suspended", end.suspended},     {"time", alike.last}};
  if (!end.last_collective.empty()) json["last_collective"] = end.last_collective;
  return json;
}

void add_alike(const Json& json, const std::vector<int64_t>& alike, int64_t ranks_per_node,
               std::vector<RankExit>& ranks) {
  RankExit end;
  end.exit_status = json.at("exit_status").get<int>();
  end.signal = json.at("signal").get<int>();
  end.stopped = json.at("stopped").get<bool>();
  end.suspended = json.at("suspended").get<bool>();
  end.time = json.at("time").get<double>();
  if (json.contains("last_collective")) {
    end.error = RankError{.last_collective = json.at("last_collective").get<std::string>()};
  }
  for (const int64_t rank : alike) {
    end.rank = rank;
    end.node = rank / ranks_per_node;
    ranks.push_back(end);
  }
}

std::optional<size_t> place_of(const std::vector<RankExit>& ranks, int64_t rank) {
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [&](const RankExit& each) { return each.rank == rank; });
  if (found == ranks.end()) return std::nullopt;
  return static_cast<size_t>(found - ranks.begin());
}

// Sorts the indices of `ranks` and then moves the elements in place. A RankExit takes about 400
// bytes and a job may have thousands of ranks, so sorting the elements themselves or copying them
// to a second list would be slower.
void sort_by_rank(std::vector<RankExit>& ranks) {
  // order[i]: index of the element that must be moved to index i.
  std::vector<size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ranks[a].rank < ranks[b].rank; });
  for (size_t start = 0; start < order.size(); ++start) {
    if (order[start] == start) continue;
    RankExit first = std::move(ranks[start]);  // first element of a cycle of the permutation
    size_t place = start;
    for (size_t from = order[place]; from != start; from = order[place]) {
      ranks[place] = std::move(ranks[from]);
      order[place] = place;
      place = from;
    }
    ranks[place] = std::move(first);
    order[place] = place;
  }
}

// A FirstCause with the ranks to which its indices `end` and `witness` refer. Sorting the list of
// ranks makes the indices invalid, but not the ranks.
struct NamedCause {
  std::optional<FirstCause> cause;
  std::optional<int64_t> end, witness;

  // Sets the indices in `cause` to the positions of the ranks in the list `ranks`. Resets `cause`
  // if neither index can be set.
  void find_in(const std::vector<RankExit>& ranks) {
    if (!cause) return;
    cause->end = end ? place_of(ranks, *end) : std::nullopt;
    cause->witness = witness ? place_of(ranks, *witness) : std::nullopt;
    // A witness without an error is useless, because the description of a hang quotes the error.
    if (cause->witness && !ranks[*cause->witness].error) cause->witness.reset();
    // A valid verdict contains the rank that caused the failure, a witness, or both.
    if (!cause->end && !cause->witness) cause.reset();
  }
};

NamedCause named(const Verdict& verdict) {
  NamedCause named{verdict.cause, {}, {}};
  if (!verdict.cause) return named;
  if (verdict.cause->end) named.end = verdict.ranks[*verdict.cause->end].rank;
  if (verdict.cause->witness) named.witness = verdict.ranks[*verdict.cause->witness].rank;
  return named;
}

}  // namespace

std::string to_text(const Verdict& verdict) {
  Json json = {{"ended_by_user", verdict.ended_by_user},
               {"silent", rank_runs(verdict.silent_nodes)},
               {"unheard", rank_runs(verdict.unheard_nodes)},
               {"failed_launchers", Json::array()},
               {"full", Json::array()},
               {"ends", Json::array()}};
  for (const FailedLauncher& failed : verdict.failed_launchers) {
    if (json["failed_launchers"].size() == kMostLaunchers) break;
    json["failed_launchers"].push_back(
        {{"node", failed.node}, {"error", error_json(failed.error)}});
  }
  const NamedCause cause = named(verdict);
  if (cause.cause) {
    json["cause"] = {{"rank", cause.cause->rank}, {"node", cause.cause->node}};
    if (cause.end) json["cause"]["end"] = *cause.end;
    if (cause.witness) json["cause"]["witness"] = *cause.witness;
  }
  for (const size_t i : told_in_full(verdict)) json["full"].push_back(full_json(verdict.ranks[i]));
  // For each KindOfEnd, the number of ranks and the JSON text. Sorted: the most common kind is
  // first.
  std::vector<std::pair<size_t, std::string>> ends;
  for (const auto& [end, alike] : by_kind(verdict)) {
    ends.emplace_back(alike.ranks.size(), dump_json(end_json(end, alike), -1));
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  size_t bytes = dump_json(json, -1).size();
  for (const auto& [count, text] : ends) {
    if (bytes + text.size() + 1 > kMostBytes) continue;
    bytes += text.size() + 1;
    json["ends"].push_back(Json::parse(text));
  }
  return dump_json(json, -1);
}

std::optional<Verdict> verdict_from(std::string_view text, int64_t ranks_per_node) {
  try {
    const Json json = Json::parse(text);
    Verdict verdict;
    verdict.ended_by_user = json.at("ended_by_user").get<bool>();
    verdict.silent_nodes = ranks_in_runs(json.at("silent"));
    verdict.unheard_nodes = ranks_in_runs(json.at("unheard"));
    const Json& full = json.at("full");
    const Json& launchers = json.at("failed_launchers");
    if (full.size() > kMostFull || launchers.size() > kMostLaunchers) return std::nullopt;
    for (const Json& failed : launchers) {
      auto error = error_from(failed.at("error"));
      if (error) verdict.failed_launchers.push_back({integer_of(failed.at("node")), *error});
    }
    size_t count = full.size();
    std::vector<std::vector<int64_t>> alike;
    for (const Json& end : json.at("ends")) {
      alike.push_back(ranks_in_runs(end.at("ranks")));
      count += alike.back().size();
      if (count > kMostRanks) return std::nullopt;
    }
    verdict.ranks.reserve(count);
    for (const Json& rank : full) verdict.ranks.push_back(full_from(rank));
    for (size_t i = 0; i < alike.size(); ++i) {
      add_alike(json.at("ends")[i], alike[i], ranks_per_node, verdict.ranks);
    }
    sort_by_rank(verdict.ranks);
    if (json.contains("cause")) {
      const Json& cause = json.at("cause");
      NamedCause named{
          FirstCause{integer_of(cause.at("rank")), integer_of(cause.at("node")), {}, {}}, {}, {}};
      if (cause.contains("end")) named.end = integer_of(cause.at("end"));
      if (cause.contains("witness")) named.witness = integer_of(cause.at("witness"));
      named.find_in(verdict.ranks);
      verdict.cause = named.cause;
    }
    return verdict;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void add(Verdict verdict, JobResult& result) {
  NamedCause cause = named(verdict);
  std::set<int64_t> own;
  for (const RankExit& rank : result.ranks) own.insert(rank.rank);
  std::erase_if(verdict.ranks, [&](const RankExit& rank) { return own.contains(rank.rank); });
  verdict.ranks.insert(verdict.ranks.end(), std::move_iterator(result.ranks.begin()),
                       std::move_iterator(result.ranks.end()));
  result.ranks = std::move(verdict.ranks);
  sort_by_rank(result.ranks);
  cause.find_in(result.ranks);
  result.cause = cause.cause;
  result.ended_by_user = result.ended_by_user || verdict.ended_by_user;
  result.silent_nodes = verdict.silent_nodes;
  result.failed_launchers = verdict.failed_launchers;
  const auto& unheard = verdict.unheard_nodes;
  result.wait_cut = result.wait_cut || std::any_of(unheard.begin(), unheard.end(), [&](int64_t n) {
                      return n != result.node_rank;
                    });
}

}  // namespace am::launch
