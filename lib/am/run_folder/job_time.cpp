#include "am/run_folder/job_time.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "am/base/json_integer.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::run_folder {

double JobTime::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

double JobTime::goodput() const {
  const double all = total();
  return all > 0.0 ? (*this)[Phase::kSteps] / all : 0.0;
}

void JobTime::fail_back(int64_t step, int64_t done, int64_t first) {
  ++failures;
  const auto here = std::find_if(saved.rbegin(), saved.rend(),
                                 [&](const Saved& each) { return each.step == step; });
  const double all = (*this)[Phase::kSteps];
  double stay = 0.0;
  if (here != saved.rend()) {
    stay = here->seconds;
  } else if (step > first && done > first) {
    // The checkpoint is no longer in `saved`: assumes that all steps took equally long.
    stay =
        all * static_cast<double>(std::min(step, done) - first) / static_cast<double>(done - first);
  }
  std::erase_if(saved, [&](const Saved& each) { return each.step > step; });
  (*this)[Phase::kSteps] = stay;
  (*this)[Phase::kStepsAgain] += all - stay;
  steps_again += std::max<int64_t>(0, done - step);
}

void JobTime::save(int64_t step) {
  constexpr size_t kMost = 32;
  saved.push_back({step, (*this)[Phase::kSteps]});
  if (saved.size() > kMost) saved.erase(saved.begin());
}

void JobTime::extend(Phase phase) {
  const double now = unix_time();
  if (until > 0.0) (*this)[phase] += std::max(0.0, now - until);
  until = now;
}

Json to_json(const JobTime& time) {
  Json json = {
      {"goodput", time.goodput()}, {"failures", time.failures}, {"steps_again", time.steps_again}};
  for (size_t i = 0; i < kPhaseNames.size(); ++i) json["seconds"][kPhaseNames[i]] = time.seconds[i];
  return json;
}

Json to_record(const JobTime& time) {
  Json json = to_json(time);
  json["until"] = time.until;
  json["saved"] = Json::array();
  for (const auto& [step, seconds] : time.saved) json["saved"].push_back({step, seconds});
  return json;
}

JobTime job_time_from(const Json& record) {
  JobTime time;
  time.failures = integer_of(record.at("failures"));
  time.steps_again = integer_of(record.at("steps_again"));
  time.until = record.at("until").get<double>();
  for (size_t i = 0; i < kPhaseNames.size(); ++i) {
    time.seconds[i] = record.at("seconds").at(kPhaseNames[i]).get<double>();
  }
  for (const Json& each : record.at("saved")) {
    time.saved.push_back({integer_of(each.at(0)), each.at(1).get<double>()});
  }
  return time;
}

std::string goodput_text(const JobTime& time) {
  std::vector<std::string> losses;
  const auto count = [&](int64_t number, const char* what) {
    if (number > 0) losses.push_back(cat(number, what, number == 1 ? "" : "s"));
  };
  count(time.failures, " failure");
  if (time.steps_again > 0) {
    losses.push_back(cat(time.steps_again, time.steps_again == 1 ? " step" : " steps", " again"));
  }
  for (const Phase phase :
       {Phase::kStarting, Phase::kLoading, Phase::kSaving, Phase::kVisits, Phase::kStopping}) {
    if (time[phase] <= 0.01 * time.total()) continue;
    losses.push_back(
        cat(format_duration(time[phase]), " ", kPhaseNames[static_cast<size_t>(phase)]));
  }
  return cat(format_fixed(100.0 * time.goodput(), 1), " %", losses.empty() ? "" : ": ",
             join(losses, ", "));
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void JobClock::enter(Phase phase) {
  time();
  phase_ = phase;
}

void JobClock::follow(const JobTime& before, double began) {
  const JobTime own = time();
  time_ = before;
  if (time_.until == 0.0) time_.until = began;
  const double start = own.until - own.total();
  const double gap = time_.until > 0.0 ? std::max(0.0, start - time_.until) : 0.0;
  for (size_t i = 0; i < kPhaseNames.size(); ++i) time_.seconds[i] += own.seconds[i];
  time_[Phase::kStarting] += gap;
  time_.until = own.until;
}

const JobTime& JobClock::time() {
  const auto now = std::chrono::steady_clock::now();
  time_[phase_] += std::chrono::duration<double>(now - since_).count();
  since_ = now;
  time_.until = unix_time();
  return time_;
}

}  // namespace am::run_folder
