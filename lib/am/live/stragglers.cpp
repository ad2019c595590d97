#include "am/live/stragglers.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/live/silence.h"
#include "am/term/table.h"

namespace am::live {

void RecentTimes::add(const observe::RankTimes& times, int64_t steps, Clock::time_point now) {
  constexpr auto kInterval = std::chrono::seconds(1);
  constexpr auto kKept = std::chrono::seconds(60);
  const std::lock_guard lock(mutex_);
  const size_t count = samples_.size();
  if (count > 1 && now - samples_[count - 2].at < kInterval) samples_.pop_back();
  samples_.push_back({now, times, steps});
  while (samples_.size() > 2 && now - samples_[1].at >= kKept) samples_.pop_front();
}

Json RecentTimes::to_json() const {
  const std::lock_guard lock(mutex_);
  if (samples_.size() < 2) return nullptr;
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  const auto steps = static_cast<double>(last.steps - first.steps);
  const observe::RankTimes times = (last.times - first.times) / steps;
  return {{"steps", last.steps - first.steps},
          {"compute", times.compute},
          {"data", times.data},
          {"saving", times.saving},
          {"waiting", times.waiting}};
}

inspect::Result describe_stragglers(const Answers& answers, const term::Style& style) {
  std::vector<observe::RankTimes> times;
  std::vector<int64_t> stages;
  std::vector<Json> rows;
  for (const auto& [rank, said] : answers.said) {
    const Json of = said.value("times", Json());
    if (of.is_null()) continue;
    times.push_back({of.at("compute"), of.at("data"), of.at("saving"), of.at("waiting")});
    stages.push_back(said.at("stage"));
    Json row = {{"rank", rank}, {"host", said.at("host")}, {"stage", said.at("stage")}};
    row.update(of);
    row["slow"] = nullptr;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    throw Error(ErrorKind::kUsage,
                "the ranks have reported no times: the job has run at most one step, or its "
                "training loop is not am-run's");
  }
  std::string verdict;
  for (observe::SlowRank slow : observe::find_slow_ranks(times, stages)) {
    Json& row = rows[static_cast<size_t>(slow.rank)];
    row["slow"] = slow.kind;
    slow.rank = row.at("rank");
    verdict += observe::describe(slow, row.at("host")) + "\n";
  }
  Json missing = Json::array();
  for (const auto& [rank, silent] : answers.silent) missing.push_back(rank);
  verdict += silence_lines(answers.silent);
  if (verdict.empty()) verdict = "no rank holds up the others\n";
  inspect::Result result;
  result.json = {{"ranks", rows}, {"missing", missing}, {"text", verdict}};
  std::vector<size_t> listed(rows.size());
  std::iota(listed.begin(), listed.end(), size_t{0});
  if (rows.size() > kListedRanks) {
    std::stable_sort(listed.begin(), listed.end(),
                     [&](size_t a, size_t b) { return times[a].own() > times[b].own(); });
    verdict = cat(kListedRanks, " of ", rows.size(),
                  " ranks: those with the longest times without waiting\n", verdict);
    listed.resize(kListedRanks);
  }
  term::Table table({{"rank", term::Align::kRight},
                     {"host"},
                     {"stage", term::Align::kRight},
                     {"compute", term::Align::kRight},
                     {"data", term::Align::kRight},
                     {"saving", term::Align::kRight},
                     {"waiting", term::Align::kRight}});
  for (const size_t i : listed) {
    const Json& row = rows[i];
    std::vector<term::Cell> cells = {cat(row.at("rank").get<int64_t>()),
                                     row.at("host").get<std::string>(),
                                     cat(row.at("stage").get<int64_t>())};
    for (const char* kind : {"compute", "data", "saving", "waiting"}) {
      cells.emplace_back(format_step_time(row.at(kind).get<double>()));
    }
    table.add(std::move(cells));
  }
  result.text = table.text(style) + verdict;
  return result;
}

}  // namespace am::live
