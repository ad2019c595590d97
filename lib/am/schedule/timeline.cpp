#include "am/schedule/timeline.h"

#include <algorithm>
#include <numeric>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::schedule {
namespace {

constexpr double kNotYet = -1.0;

// Runs each rank as far as it can go; whoever makes what another rank may wait for wakes it. So
// every slot is looked at once, and once more for each time that its rank was woken in vain.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        forward_end_(static_cast<size_t>(schedule.stages() * schedule.microbatches), kNotYet),
        backward_end_(forward_end_),
        next_(schedule.ranks.size(), 0),
        free_at_(schedule.ranks.size(), 0.0),
        awake_(schedule.ranks.size(), true) {
    timeline_.ranks.resize(schedule.ranks.size());
  }

  // True when all lists came to their end.
  bool run() {
    std::vector<size_t> ready(schedule_.ranks.size());
    std::iota(ready.rbegin(), ready.rend(), size_t{0});
    bool complete = true;
    while (!ready.empty()) {
      const size_t rank = ready.back();
      ready.pop_back();
      awake_[rank] = false;
      const std::vector<Slot>& list = schedule_.ranks[rank];
      while (next_[rank] < list.size() && try_slot(rank, list[next_[rank]], ready)) ++next_[rank];
    }
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      complete = complete && next_[rank] == schedule_.ranks[rank].size();
    }
    return complete;
  }

  const std::vector<size_t>& next() const { return next_; }
  Timeline take() { return std::move(timeline_); }

 private:
  size_t index(int64_t stage, int32_t micro_batch) const {
    return static_cast<size_t>(stage * schedule_.microbatches + micro_batch);
  }
  int64_t owner(int64_t stage) const { return schedule_.owners[static_cast<size_t>(stage)]; }

  // When the input of a pass is there; kNotYet when it has not been made.
  double input_at(const Action& action) const {
    int64_t from = action.stage;
    double made = 0.0;
    if (action.kind == Kind::kForward && action.stage > 0) {
      made = forward_end_[index(--from, action.micro_batch)];
    } else if (makes_input_gradient(action.kind) && action.stage + 1 < schedule_.stages()) {
      made = backward_end_[index(++from, action.micro_batch)];
    }
    const bool travels = made >= 0.0 && owner(from) != owner(action.stage);
    return travels ? made + durations_.hop_latency + durations_.hop_transfer : made;
  }

  double length(const Action& action) const {
    const StageDurations& stage = durations_.stages[static_cast<size_t>(action.stage)];
    switch (action.kind) {
      case Kind::kForward:
        return stage.forward;
      case Kind::kBackwardInput:
        return stage.backward_input;
      case Kind::kBackwardWeight:
        return stage.backward_weight;
      default:
        return stage.backward_input + stage.backward_weight;
    }
  }

  bool try_slot(size_t rank, const Slot& slot, std::vector<size_t>& ready) {
    double start = free_at_[rank];
    double total = 0.0;
    double shorter = 0.0;
    for (const Action& action : slot.actions()) {
      const double input = input_at(action);
      if (input < 0.0) return false;
      start = std::max(start, input);
      shorter = total == 0.0 ? length(action) : std::min(shorter, length(action));
      total += length(action);
    }
    const bool overlaps = slot.is_pair() && durations_.pair_overlap > 0.0;
    if (overlaps) {
      const double end = start + total - durations_.pair_overlap * shorter;
      for (const Action& action : slot.actions()) finish(rank, action, start, end, true, ready);
      return true;
    }
    for (const Action& action : slot.actions()) {
      start = std::max(start, free_at_[rank]);
      finish(rank, action, start, start + length(action), slot.is_pair(), ready);
    }
    return true;
  }

  void finish(size_t rank, const Action& action, double start, double end, bool paired,
              std::vector<size_t>& ready) {
    timeline_.ranks[rank].push_back({action, start, end, paired});
    free_at_[rank] = std::max(free_at_[rank], end);
    int64_t to = action.stage;
    if (action.kind == Kind::kForward) {
      forward_end_[index(action.stage, action.micro_batch)] = end;
      ++to;
    } else if (makes_input_gradient(action.kind)) {
      backward_end_[index(action.stage, action.micro_batch)] = end;
      --to;
    }
    if (to == action.stage || to < 0 || to == schedule_.stages()) return;
    const auto receiver = static_cast<size_t>(owner(to));
    if (receiver == rank) return;
    if (durations_.hops_occupy) free_at_[rank] += durations_.hop_transfer;
    if (awake_[receiver]) return;
    awake_[receiver] = true;
    ready.push_back(receiver);
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<double> forward_end_;   // by stage and micro-batch
  std::vector<double> backward_end_;  // of the input's gradient
  std::vector<size_t> next_;          // by rank: slots that have run
  std::vector<double> free_at_;       // by rank
  std::vector<bool> awake_;           // by rank: it is running, or stands in the queue
  Timeline timeline_;
};

int64_t peak_of(const std::vector<Event>& events) {
  int64_t now = 0;
  int64_t peak = 0;
  for (const Event& event : events) {
    if (event.action.kind == Kind::kForward) peak = std::max(peak, ++now);
    if (ends_micro_batch(event.action.kind)) --now;
  }
  return peak;
}

// Events end in the order in which they were begun, but for the wait behind a send.
void sum_up(Timeline& timeline) {
  for (const auto& events : timeline.ranks) {
    for (const Event& event : events) timeline.makespan = std::max(timeline.makespan, event.end);
  }
  double idle = 0.0;
  for (const auto& events : timeline.ranks) {
    double computing = 0.0;
    double until = 0.0;  // an overlapped pair counts once
    for (const Event& event : events) {
      computing += std::max(0.0, event.end - std::max(event.start, until));
      until = std::max(until, event.end);
    }
    timeline.idle.push_back(timeline.makespan - computing);
    timeline.peak_in_flight.push_back(peak_of(events));
    idle += timeline.idle.back();
  }
  const double all = timeline.makespan * static_cast<double>(timeline.ranks.size());
  timeline.bubble_fraction = all > 0.0 ? idle / all : 0.0;
}

}  // namespace

Durations Durations::even(int64_t stages, int64_t ranks) {
  const double one = static_cast<double>(ranks) / static_cast<double>(stages);
  Durations durations;
  durations.stages.assign(static_cast<size_t>(stages), {one, one, one});
  return durations;
}

Timeline simulate(const Schedule& schedule, const Durations& durations) {
  AM_ASSERT(durations.stages.size() == schedule.owners.size(), "durations of another pipeline");
  Simulation simulation(schedule, durations);
  if (!simulation.run()) {
    throw Error(ErrorKind::kPlan,
                cat("schedule ", schedule.name, " makes ranks wait for each ", "other for ever"));
  }
  Timeline timeline = simulation.take();
  sum_up(timeline);
  return timeline;
}

std::vector<Stuck> find_deadlock(const Schedule& schedule) {
  const Durations durations = Durations::even(schedule.stages(), schedule.pp());
  Simulation simulation(schedule, durations);
  simulation.run();
  std::vector<Stuck> stuck;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const size_t slot = simulation.next()[rank];
    if (slot < schedule.ranks[rank].size()) stuck.push_back({static_cast<int64_t>(rank), slot});
  }
  return stuck;
}

}  // namespace am::schedule
