#include "am/live/hang.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/training_answers.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/supervise/wall_time.h"
#include "am/runtime/stall.h"
#include "am/term/table.h"

namespace am::live {

namespace {

// A rank that waits for less is one that works.
constexpr double kLongWait = 1.0;

std::optional<launch::RankState> state_in(const Json& json) {
  try {
    return launch::RankState::from_json(json);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Silence now is what counts: whoever did not answer has no younger state.
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

// The rank that has waited longest for another one, and for whom. One that does not come out of a
// collective at which all have arrived waits longer than all that it keeps waiting, but for nobody.
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
  for (const launch::RankState* waiter : waiting) {
    runtime::Stall stall = stall_of(*waiter, views);
    if (!stall.missing.empty()) return std::pair(waiter->rank, std::move(stall));
  }
  return std::nullopt;
}

std::string silence_text(const Silent& silent) {
  if (silent.process.empty()) return "does not answer";
  if (silent.process == "running") return "does not answer, though its process runs";
  return cat("its process is ", silent.process);
}

std::string short_list(const std::vector<int64_t>& ranks) {
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(ranks, ", "));
}

// The one sentence that whoever asks wants.
std::string verdict(const Answers& answers,
                    const std::optional<std::pair<int64_t, runtime::Stall>>& stall,
                    const std::vector<int64_t>& missing) {
  std::string text;
  for (const auto& [rank, silent] : answers.silent) {
    text += cat("rank ", rank, ": ", silence_text(silent), "\n");
  }
  if (stall) {
    text += cat("rank ", stall->first, " waits for ", short_list(missing), "\n");
    if (!stall->second.text.empty()) text += cat(stall->second.text, "\n");
  }
  return text;
}

}  // namespace

inspect::Result describe_ranks(const Answers& answers, const term::Style& style) {
  const auto views = views_of(answers);
  const auto stall = longest_stall(views);
  std::vector<int64_t> missing;
  if (stall) missing = stall->second.missing;
  for (const auto& [rank, silent] : answers.silent) {
    if (std::find(missing.begin(), missing.end(), rank) == missing.end()) missing.push_back(rank);
  }
  std::sort(missing.begin(), missing.end());
  Json rows = Json::array();
  term::Table table({{"rank", term::Align::kRight},
                     {"step", term::Align::kRight},
                     {"phase"},
                     {"memory", term::Align::kRight},
                     {"where"}});
  for (const auto& [rank, view] : views) {
    const bool silent = answers.silent.contains(rank);
    Json row = {{"rank", rank},           {"state", silent ? "silent" : "answers"},
                {"step", nullptr},        {"phase", nullptr},
                {"collective", nullptr},  {"seconds", nullptr},
                {"memory_bytes", nullptr}};
    std::string where = "in no collective";
    if (view.state && view.state->step) row["step"] = *view.state->step;
    if (view.state && !view.state->waiting_op.empty()) {
      const std::string name = cat(view.state->waiting_op, " ", view.state->waiting_group, " #",
                                   view.state->waiting_sequence);
      row["collective"] = name;
      row["seconds"] = view.state->waiting_seconds;
      where = cat("in ", name, " for ", format_duration(view.state->waiting_seconds));
    }
    std::string phase;
    std::string memory;
    if (silent) {
      const Silent& about = answers.silent.at(rank);
      row["state"] = about.process.empty() ? "silent" : about.process;
      where = cat(silence_text(about), "; last heard ",
                  view.state ? cat(format_duration(view.silent_seconds), " ago ", where)
                             : std::string("never"));
    } else {
      const Json& said = answers.said.at(rank);
      row["phase"] = said.at("phase");
      row["memory_bytes"] = said.at("memory_bytes");
      phase = said.at("phase").get<std::string>();
      memory = format_bytes(said.at("memory_bytes").get<int64_t>());
    }
    const std::string step = row["step"].is_null() ? "" : cat(row["step"].get<int64_t>());
    table.add({std::to_string(rank), step, phase, memory, where});
    rows.push_back(std::move(row));
  }
  inspect::Result result;
  const std::string text = verdict(answers, stall, missing);
  result.json = {{"ranks", rows}, {"missing", missing}, {"text", text}};
  result.text = table.text(style) + text;
  return result;
}

inspect::Result describe_collectives(const Answers& answers, const term::Style& style) {
  inspect::Result result;
  Json ranks = Json::array();
  for (const auto& [rank, said] : answers.said) {
    ranks.push_back({{"rank", rank}, {"collectives", said.at("collectives")}});
    // Of all ranks the newest ones; of one, all that it remembers.
    const bool few = answers.said.size() + answers.silent.size() > 1;
    result.text += inspect::draw_collectives(rank, said.at("collectives"), few, style);
  }
  for (const auto& [rank, silent] : answers.silent) {
    result.text += cat("rank ", rank, ": ", silence_text(silent), "\n");
  }
  result.json = {{"ranks", ranks}};
  return result;
}

inspect::Result describe_stack(int64_t rank, const Answers& answers) {
  const auto said = answers.said.find(rank);
  if (said == answers.said.end()) {
    const auto silent = answers.silent.find(rank);
    throw Error(
        ErrorKind::kUsage,
        cat("rank ", rank, " has no stack to show: ",
            silent == answers.silent.end() ? "it is not there" : silence_text(silent->second)),
        "`ranks` says where all are");
  }
  const Json& frames = said->second.at("frames");
  if (frames.empty()) {
    throw Error(ErrorKind::kUsage, cat("rank ", rank, "'s training thread did not write its stack"),
                "it is inside the kernel, as in a disk or a driver that does not answer");
  }
  inspect::Result result;
  result.json = {{"rank", rank}, {"frames", frames}};
  size_t number = 0;
  for (const Json& frame : frames) {
    result.text += cat("#", number++, "  ", frame.get<std::string>(), "\n");
  }
  return result;
}

}  // namespace am::live
