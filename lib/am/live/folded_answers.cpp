// Implements a part of hang.h: formats the ranks' answers for the commands `collectives` and
// `stack`.
#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/inspect/training_answers.h"
#include "am/live/hang.h"
#include "am/live/silence.h"

namespace am::live {

Json question_of(const std::string& what, bool one, int64_t world_size) {
  Json question = {{"what", what}};
  if (what == "collectives" && !one && world_size > static_cast<int64_t>(kListedRanks)) {
    question["newest"] = 4;  // draw_collectives() shows at most 4 for several ranks
  }
  return question;
}

namespace {

// Ranks that issued the same collectives.
struct Issued {
  std::vector<int64_t> ranks;
  Json collectives;  // "seconds_ago" of each collective is the largest of these ranks
};

// Returns a key that identifies a list of collectives, regardless of their ages. Two ranks that
// issued the same collectives and wait in the same ones have the same key.
std::string kind_of(const Json& collectives) {
  std::string kind;
  for (const Json& each : collectives) {
    kind += cat(each.at("op").get<std::string>(), " ", each.at("group").get<std::string>(), " ",
                each.at("sequence").get<uint64_t>(), " ", each.at("bytes").get<int64_t>(), " ",
                each.at("waiting").get<bool>(), "\n");
  }
  return kind;
}

}  // namespace

inspect::Result describe_collectives(const Answers& answers, const term::Style& style) {
  const size_t size = answers.said.size() + answers.silent.size();
  inspect::Result result;
  Json ranks = Json::array();
  std::vector<Issued> rows;
  std::map<std::string, size_t> places;  // indices in `rows`, by kind_of() if folded, else by rank
  for (const auto& [rank, said] : answers.said) {
    const Json& collectives = said.at("collectives");
    ranks.push_back({{"rank", rank}, {"collectives", collectives}});
    const bool folded = size > kListedRanks;
    const std::string kind = folded ? kind_of(collectives) : std::to_string(rank);
    const auto [place, fresh] = places.try_emplace(kind, rows.size());
    if (fresh) {
      rows.push_back({{rank}, collectives});
      continue;
    }
    Issued& row = rows[place->second];
    row.ranks.push_back(rank);
    for (size_t i = 0; i < collectives.size(); ++i) {
      Json& age = row.collectives[i]["seconds_ago"];
      age = std::max(age.get<double>(), collectives[i].at("seconds_ago").get<double>());
    }
  }
  // For several ranks, shows only the newest collectives; for a single rank, all recorded ones.
  for (const Issued& row : rows) {
    result.text +=
        inspect::draw_collectives(ranks_text(row.ranks), row.collectives, size > 1, style);
  }
  result.text += silence_lines(answers.silent);
  result.json = {{"ranks", ranks}};
  return result;
}

namespace {

// Splits a stack from RankStatus::answer() into its frames, innermost first.
std::vector<std::string> frames_in(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : split(text, '\n');
}

std::string stack_text(const std::vector<std::string>& frames) {
  std::string text;
  size_t number = 0;
  for (const std::string& frame : frames) text += cat("#", number++, "  ", frame, "\n");
  return text;
}

// Returns a title and the stack of the thread that runs backward on a GPU; empty if there are no
// frames.
std::string backward_text(const std::vector<std::string>& frames) {
  return frames.empty() ? std::string() : cat("thread of the GPU's backward\n", stack_text(frames));
}

// The stacks of one rank as text, with one frame per line (RankStatus::answer).
struct Stacks {
  std::string frames;           // stack of the training thread
  std::string backward_frames;  // stack of the thread that runs a GPU's backward; may be empty

  auto operator<=>(const Stacks&) const = default;
};

Stacks stacks_in(const Json& said) {
  return {said.at("frames").get<std::string>(), said.value("backward_frames", std::string())};
}

constexpr const char* kNoFrames = "training thread did not write its stack";

}  // namespace

inspect::Result describe_stack(int64_t rank, const Answers& answers) {
  const auto said = answers.said.find(rank);
  if (said == answers.said.end()) {
    const auto silent = answers.silent.find(rank);
    throw Error(
        ErrorKind::kUsage,
        cat("rank ", rank, ": ",
            silent == answers.silent.end() ? "did not answer" : silence_text(silent->second),
            ", so there is no stack to show"),
        "`ranks` shows the state of all ranks");
  }
  const Stacks stacks = stacks_in(said->second);
  const auto frames = frames_in(stacks.frames);
  if (frames.empty()) {
    throw Error(ErrorKind::kUsage, cat("rank ", rank, "'s ", kNoFrames),
                "the thread is probably inside the kernel, for example waiting for a disk or a "
                "driver");
  }
  inspect::Result result;
  const auto backward = frames_in(stacks.backward_frames);
  result.json = {{"rank", rank}, {"frames", frames}};
  if (!backward.empty()) result.json["backward_frames"] = backward;
  result.text = stack_text(frames) + backward_text(backward);
  return result;
}

inspect::Result describe_stacks(const Answers& answers) {
  // The distinct stacks, each with its ranks, ordered by the lowest rank.
  std::vector<std::pair<Stacks, std::vector<int64_t>>> stacks;
  std::map<Stacks, size_t> places;  // indices in `stacks`
  for (const auto& [rank, said] : answers.said) {
    const Stacks own = stacks_in(said);
    const auto [place, fresh] = places.try_emplace(own, stacks.size());
    if (fresh) stacks.push_back({own, {}});
    stacks[place->second].second.push_back(rank);
  }
  inspect::Result result;
  Json list = Json::array();
  for (const auto& [alike, ranks] : stacks) {
    const auto frames = frames_in(alike.frames);
    const auto backward = frames_in(alike.backward_frames);
    result.text += cat(ranks_text(ranks), ranks.size() > 2 ? cat(" (", ranks.size(), ")") : "",
                       frames.empty() ? cat(": the ", kNoFrames) : "", "\n", stack_text(frames),
                       backward_text(backward));
    Json& entry = list.emplace_back(Json{{"ranks", ranks}, {"frames", frames}});
    if (!backward.empty()) entry["backward_frames"] = backward;
  }
  result.text += silence_lines(answers.silent);
  Json silent = Json::array();
  for (const auto& [rank, about] : answers.silent) silent.push_back(rank);
  result.json = {{"stacks", std::move(list)}, {"silent", std::move(silent)}};
  return result;
}

}  // namespace am::live
