#include "am/live/hang.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/supervise/wall_time.h"
#include "am/live/silence.h"
#include "am/live/stragglers.h"
#include "am/runtime/stall.h"
#include "am/term/table.h"

namespace am::live {

namespace {

// In seconds. A rank that has waited in a collective for a shorter time counts as working.
constexpr double kLongWait = 1.0;

std::optional<launch::RankState> state_in(const Json& json) {
  try {
    return launch::RankState::from_json(json);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the state of every rank. For a rank that did not answer, returns the last state that its
// watchdog published, with silent_seconds > 0.
std::map<int64_t, runtime::PeerView> views_of(const Answers& answers) {
  std::map<int64_t, runtime::PeerView> views;
  for (const auto& [rank, json] : answers.said) views[rank] = {state_in(json.at("state")), 0.0};
  for (const auto& [rank, silent] : answers.silent) {
    runtime::PeerView view;
    if (silent.last_state) view.state = state_in(*silent.last_state);
    view.silent_seconds =
        view.state ? std::max(launch::wall_time() - view.state->time, kLongWait) : kLongWait;
    views[rank] = view;
  }
  return views;
}

runtime::Stall stall_of(const launch::RankState& waiter,
                        const std::map<int64_t, runtime::PeerView>& views) {
  auto communicator = std::make_shared<runtime::CommunicatorId>();
  communicator->name = waiter.waiting_communicator;
  communicator->ranks = waiter.waiting_ranks;
  const runtime::Collective collective{waiter.waiting_op.c_str(), waiter.waiting_group,
                                       communicator, waiter.waiting_sequence};
  return runtime::find_stall(collective, waiter.rank, views, kLongWait / 2);
}

// Returns the rank that has waited longest in a collective, and the reason why the collective does
// not end; nothing if no rank waits for another rank. Skips a collective in which all ranks have
// arrived, because its ranks wait for no other rank.
std::optional<std::pair<int64_t, runtime::Stall>> longest_stall(
    const std::map<int64_t, runtime::PeerView>& views) {
  std::vector<const launch::RankState*> waiting;
  for (const auto& [rank, view] : views) {
    const bool waits = view.silent_seconds == 0.0 && view.state && !view.state->waiting_op.empty();
    if (waits && view.state->waiting_seconds >= kLongWait) waiting.push_back(&*view.state);
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto* a, const auto* b) {
    return a->waiting_seconds > b->waiting_seconds;
  });
  std::set<std::pair<std::string, uint64_t>> seen;  // collectives that were examined
  for (const launch::RankState* waiter : waiting) {
    if (!seen.emplace(waiter->waiting_communicator, waiter->waiting_sequence).second) continue;
    runtime::Stall stall = stall_of(*waiter, views);
    if (!stall.missing.empty()) return std::pair(waiter->rank, std::move(stall));
  }
  return std::nullopt;
}

// Returns the lines below the table of the command `ranks`: the ranks that do not answer, and the
// ranks that the others wait for.
std::string verdict(const Answers& answers,
                    const std::optional<std::pair<int64_t, runtime::Stall>>& stall,
                    const std::vector<int64_t>& missing) {
  std::string text = silence_lines(answers.silent);
  if (stall) {
    text += cat("rank ", stall->first, " waits for ", ranks_text(missing), "\n");
    if (!stall->second.text.empty()) text += cat(stall->second.text, "\n");
  }
  return text;
}

class Span {
 public:
  explicit Span(double value) : low_(value), high_(value) {}
  void add(const Span& other) {
    low_ = std::min(low_, other.low_);
    high_ = std::max(high_, other.high_);
  }
  // Returns the value or the range of values, for example "3 s" or "3 s to 4 s".
  template <typename Format>
  std::string text(const Format& format) const {
    const std::string low = format(low_);
    const std::string high = format(high_);
    return low == high ? low : cat(low, " to ", high);
  }

 private:
  double low_;
  double high_;
};

std::string duration_text(const Span& span) { return span.text(format_duration); }

std::string bytes_text(const Span& span) {
  return span.text([](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); });
}

// One row of the table `ranks`: ranks that are in the same state.
struct Doing {
  std::vector<int64_t> ranks;
  std::string step;
  std::string phase;
  // The collective that the ranks wait in, for example "all_reduce world #6"; empty if there is
  // none.
  std::string collective;
  std::optional<Span> waiting;   // seconds that the ranks have waited in the collective
  std::optional<Span> memory;    // resident host memory in bytes; empty if the ranks are silent
  std::optional<Silent> silent;  // process state of ranks that do not answer, else empty
  // For ranks that do not answer: seconds since their watchdogs last published a state; empty if no
  // state was published.
  std::optional<Span> silent_seconds;

  auto kind() const {
    return std::tuple(step, phase, collective, silent ? silent->process : "answers",
                      silent && !silent_seconds);
  }
  void add(const Doing& other) {
    ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
    if (waiting && other.waiting) waiting->add(*other.waiting);
    if (memory && other.memory) memory->add(*other.memory);
    if (silent_seconds && other.silent_seconds) silent_seconds->add(*other.silent_seconds);
  }
  std::string where() const {
    std::string in =
        waiting ? cat("in ", collective, " for ", duration_text(*waiting)) : "in no collective";
    if (!silent) return in;
    return cat(silence_text(*silent, ranks.size() == 1), "; ",
               silent_seconds ? cat("last heard ", duration_text(*silent_seconds), " ago ", in)
                              : "no earlier state is known");
  }
};

Doing doing_of(int64_t rank, const runtime::PeerView& view, const Answers& answers) {
  Doing doing;
  doing.ranks = {rank};
  if (view.state && view.state->step) doing.step = cat(*view.state->step);
  if (view.state && !view.state->waiting_op.empty()) {
    doing.collective = cat(view.state->waiting_op, " ", view.state->waiting_group, " #",
                           view.state->waiting_sequence);
    doing.waiting = Span(view.state->waiting_seconds);
  }
  if (const auto silent = answers.silent.find(rank); silent != answers.silent.end()) {
    doing.silent = {silent->second.process, {}};
    if (view.state) doing.silent_seconds = Span(view.silent_seconds);
  } else {
    const Json& said = answers.said.at(rank);
    doing.phase = said.at("phase").get<std::string>();
    doing.memory = Span(said.at("memory_bytes").get<double>());
  }
  return doing;
}

Json row_of(const Doing& doing, const runtime::PeerView& view) {
  Json row = {{"rank", doing.ranks.front()},
              {"state", "answers"},
              {"step", nullptr},
              {"phase", nullptr},
              {"collective", nullptr},
              {"seconds", nullptr},
              {"memory_bytes", nullptr}};
  if (doing.silent) row["state"] = doing.silent->process.empty() ? "silent" : doing.silent->process;
  if (view.state && view.state->step) row["step"] = *view.state->step;
  if (doing.waiting) {
    row["collective"] = doing.collective;
    row["seconds"] = view.state->waiting_seconds;
  }
  return row;
}

std::string ranks_table(const std::vector<Doing>& rows, bool folded, const term::Style& style) {
  std::vector<term::Column> columns = {{folded ? "ranks" : "rank", term::Align::kRight},
                                       {"step", term::Align::kRight},
                                       {"phase"},
                                       {"memory", term::Align::kRight},
                                       {"where", folded ? term::Align::kWrap : term::Align::kLeft}};
  if (folded) columns.push_back({"which", term::Align::kWrap});
  term::Table table(std::move(columns));
  for (const Doing& doing : rows) {
    std::vector<term::Cell> cells = {
        cat(folded ? static_cast<int64_t>(doing.ranks.size()) : doing.ranks.front()), doing.step,
        doing.phase, doing.memory ? bytes_text(*doing.memory) : std::string(), doing.where()};
    if (folded) cells.emplace_back(rank_list(doing.ranks, kListedRanks));
    table.add(std::move(cells));
  }
  return table.text(style);
}

}  // namespace

inspect::Result describe_ranks(const Answers& answers, const term::Style& style) {
  const auto views = views_of(answers);
  const auto stall = longest_stall(views);
  std::vector<int64_t> missing;
  if (stall) missing = stall->second.missing;
  for (const auto& [rank, silent] : answers.silent) missing.push_back(rank);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  const bool folded = views.size() > kListedRanks;
  Json list = Json::array();
  std::vector<Doing> rows;
  std::map<decltype(Doing().kind()), size_t> places;  // indices in `rows`
  for (const auto& [rank, view] : views) {
    Doing doing = doing_of(rank, view, answers);
    Json row = row_of(doing, view);
    if (const auto said = answers.said.find(rank); said != answers.said.end()) {
      row["phase"] = said->second.at("phase");
      row["memory_bytes"] = said->second.at("memory_bytes");
    }
    list.push_back(std::move(row));
    const auto [place, fresh] = places.try_emplace(doing.kind(), rows.size());
    if (fresh || !folded) {
      rows.push_back(std::move(doing));
    } else {
      rows[place->second].add(doing);
    }
  }
  inspect::Result result;
  const std::string text = verdict(answers, stall, missing);
  result.json = {{"ranks", list}, {"missing", missing}, {"text", text}};
  result.text = ranks_table(rows, folded, style) + text;
  return result;
}

inspect::Result describe_answers(std::string_view what, const Answers& answers,
                                 const term::Style& style) {
  if (what == "stack") return describe_stacks(answers);
  if (what == "stragglers") return describe_stragglers(answers, style);
  return what == "ranks" ? describe_ranks(answers, style) : describe_collectives(answers, style);
}

}  // namespace am::live
