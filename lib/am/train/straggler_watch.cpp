#include "am/train/straggler_watch.h"

#include <algorithm>

#include "am/base/host.h"
#include "am/base/text.h"
#include "am/launch/supervise/wall_time.h"

namespace am::train {

StragglerWatch::StragglerWatch(double every, const runtime::World& world,
                               const runtime::DeviceMesh& mesh)
    : every_(every), world_(world), mesh_(mesh) {}

void StragglerWatch::exchange_hosts() { hosts_ = world_.group().all_gather_text(host_name()); }

StragglerWatch::Start StragglerWatch::start() const {
  return {std::chrono::steady_clock::now(), world_.progress().waited_seconds()};
}

// Returns the seconds for which this rank has waited since `start`, and adds them to
// times_.waiting.
double StragglerWatch::take_waiting(const Start& start) {
  const double waiting = world_.progress().waited_seconds() - start.waited;
  times_.waiting += waiting;
  return waiting;
}

double StragglerWatch::add_step(const Start& start, double data_seconds) {
  const double waiting = take_waiting(start);
  times_.compute += launch::seconds_since(start.time) - waiting - data_seconds;
  times_.data += data_seconds;
  ++steps_;
  return waiting;
}

void StragglerWatch::add_saving(const Start& start) {
  const double waiting = take_waiting(start);
  times_.saving += launch::seconds_since(start.time) - waiting;
}

void StragglerWatch::fill(StepReport& report) {
  const bool decides = mesh_.rank() == 0 && mesh_.layout().world_size() > 1;
  if (decides && every_ > 0.0 && steps_ > compared_steps_ &&
      launch::seconds_since(compared_at_) >= every_) {
    report.compare = true;
    compared_at_ = std::chrono::steady_clock::now();
  }
  report.times =
      (times_ - compared_) / static_cast<double>(std::max<int64_t>(1, steps_ - compared_steps_));
}

std::vector<std::string> StragglerWatch::compare(const std::vector<observe::RankTimes>& times) {
  compared_ = times_;
  compared_steps_ = steps_;
  if (mesh_.rank() != 0) return {};
  std::vector<int64_t> stages;
  for (int64_t rank = 0; rank < mesh_.layout().world_size(); ++rank) {
    stages.push_back(mesh_.layout().coordinate(rank)[0]);
  }
  std::vector<std::string> lines;
  for (const observe::SlowRank& slow : observe::find_slow_ranks(times, stages, fastest_)) {
    const std::string& host = hosts_.at(static_cast<size_t>(slow.rank));
    lines.push_back(cat("slow rank   ", observe::describe(slow, host)));
  }
  if (fastest_.empty()) fastest_ = times;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    if (times[rank].own() < fastest_[rank].own()) fastest_[rank] = times[rank];
  }
  return lines;
}

}  // namespace am::train
