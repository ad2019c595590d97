#include "am/pipeline/timeline.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::pipeline {
namespace {

constexpr double kNotYet = -1.0;

// Results that a simulation keeps: all passes, or only the time at which the last pass ends.
enum class Keep { kPasses, kEnd };

// Running totals of a rank in a simulation.
struct Sums {
  double computing = 0.0;
  // End of the rank's latest pass, so that `computing` counts the overlapped time of a pair once.
  double until = 0.0;
  int64_t in_flight = 0;
  int64_t peak = 0;
};

// Runs each rank until an input is missing. The action that computes the input puts the waiting
// rank back into the queue. Every slot is therefore examined once, plus once for each input that
// was missing.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const Durations& durations, Keep keep)
      : schedule_(schedule),
        durations_(durations),
        keeps_passes_(keep == Keep::kPasses),
        forward_end_(static_cast<size_t>(schedule.stages() * schedule.microbatches), kNotYet),
        backward_end_(forward_end_),
        next_(schedule.ranks.size(), 0),
        free_at_(schedule.ranks.size(), 0.0),
        awake_(schedule.ranks.size(), 1),
        sums_(schedule.ranks.size()) {
    if (!keeps_passes_) return;
    timeline_.ranks.resize(schedule.ranks.size());
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      timeline_.ranks[rank].reserve(schedule.ranks[rank].size());
    }
  }

  // Returns whether all lists ran to their end.
  bool run() {
    std::vector<size_t> ready(schedule_.ranks.size());
    std::iota(ready.rbegin(), ready.rend(), size_t{0});
    bool complete = true;
    while (!ready.empty()) {
      const size_t rank = ready.back();
      ready.pop_back();
      awake_[rank] = 0;
      const std::vector<Slot>& list = schedule_.ranks[rank];
      while (next_[rank] < list.size() && try_slot(rank, list[next_[rank]], ready)) ++next_[rank];
    }
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      complete = complete && next_[rank] == schedule_.ranks[rank].size();
    }
    return complete;
  }

  const std::vector<size_t>& next() const { return next_; }

  Timeline take() {
    double idle = 0.0;
    for (const Sums& sums : sums_) timeline_.makespan = std::max(timeline_.makespan, sums.until);
    for (const Sums& sums : sums_) {
      timeline_.idle.push_back(timeline_.makespan - sums.computing);
      timeline_.peak_in_flight.push_back(sums.peak);
      idle += timeline_.idle.back();
    }
    const double all = timeline_.makespan * static_cast<double>(sums_.size());
    timeline_.bubble_fraction = all > 0.0 ? idle / all : 0.0;
    return std::move(timeline_);
  }

 private:
  size_t index(int64_t stage, int32_t micro_batch) const {
    return static_cast<size_t>(stage * schedule_.microbatches + micro_batch);
  }
  int64_t owner(int64_t stage) const { return schedule_.owners[static_cast<size_t>(stage)]; }

  // Returns the time at which a pass's input is available; kNotYet if it has not been computed.
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
    return pass_length(action.kind, durations_.stages[static_cast<size_t>(action.stage)]);
  }

  bool try_slot(size_t rank, const Slot& slot, std::vector<size_t>& ready) {
    double start = free_at_[rank];
    double total = 0.0;
    double shorter = std::numeric_limits<double>::infinity();
    for (const Action& action : slot.actions()) {
      const double input = input_at(action);
      if (input < 0.0) return false;
      start = std::max(start, input);
      shorter = std::min(shorter, length(action));
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
    if (keeps_passes_) timeline_.ranks[rank].push_back({action, paired, start, end});
    sum_up(sums_[rank], action, start, end);
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
    if (awake_[receiver] != 0 || !waits_for(receiver, action, to)) return;
    awake_[receiver] = 1;
    ready.push_back(receiver);
  }

  static void sum_up(Sums& sums, const Action& action, double start, double end) {
    sums.computing += std::max(0.0, end - std::max(start, sums.until));
    sums.until = std::max(sums.until, end);
    if (action.kind == Kind::kForward) sums.peak = std::max(sums.peak, ++sums.in_flight);
    if (ends_micro_batch(action.kind)) --sums.in_flight;
  }

  // Whether the rank's next slot contains an action of stage `to` that reads the result of `made`.
  bool waits_for(size_t rank, const Action& made, int64_t to) const {
    const std::vector<Slot>& list = schedule_.ranks[rank];
    if (next_[rank] == list.size()) return false;
    const auto actions = list[next_[rank]].actions();
    return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
      return action.stage == to && action.micro_batch == made.micro_batch &&
             (action.kind == Kind::kForward) == (made.kind == Kind::kForward);
    });
  }

  const Schedule& schedule_;
  const Durations& durations_;
  const bool keeps_passes_;
  std::vector<double> forward_end_;  // by stage and micro-batch: end of the forward, or kNotYet
  // By stage and micro-batch: end of the pass that computes the gradient of the stage's input, or
  // kNotYet.
  std::vector<double> backward_end_;
  std::vector<size_t> next_;     // for each rank: number of slots that have run
  std::vector<double> free_at_;  // for each rank: time at which its next action may start
  std::vector<char> awake_;      // for each rank: 1 while the rank is in the queue
  std::vector<Sums> sums_;       // totals of each rank
  Timeline timeline_;
};

}  // namespace

double pass_length(Kind kind, const StageDurations& stage) {
  switch (kind) {
    case Kind::kForward:
      return stage.forward;
    case Kind::kBackwardInput:
      return stage.backward_input;
    case Kind::kBackwardWeight:
      return stage.backward_weight;
    case Kind::kBackward:
      return stage.backward_input + stage.backward_weight;
    default:
      return 0.0;
  }
}

Durations Durations::even(int64_t stages, int64_t ranks) {
  const double one = static_cast<double>(ranks) / static_cast<double>(stages);
  Durations durations;
  durations.stages.assign(static_cast<size_t>(stages), {one, one, one});
  return durations;
}

namespace {

Timeline simulate(const Schedule& schedule, const Durations& durations, Keep keep) {
  AM_ASSERT(durations.stages.size() == schedule.owners.size(), "each stage needs durations");
  Simulation simulation(schedule, durations, keep);
  if (!simulation.run()) {
    throw Error(ErrorKind::kPlan,
                cat("schedule ", schedule.name, " makes ranks wait for each ", "other forever"));
  }
  return simulation.take();
}

}  // namespace

Timeline simulate(const Schedule& schedule, const Durations& durations) {
  return simulate(schedule, durations, Keep::kPasses);
}

double simulated_seconds(const Schedule& schedule, const Durations& durations) {
  return simulate(schedule, durations, Keep::kEnd).makespan;
}

std::vector<Stuck> find_deadlock(const Schedule& schedule) {
  const Durations durations = Durations::even(schedule.stages(), schedule.pp());
  Simulation simulation(schedule, durations, Keep::kEnd);
  simulation.run();
  std::vector<Stuck> stuck;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const size_t slot = simulation.next()[rank];
    if (slot < schedule.ranks[rank].size()) stuck.push_back({static_cast<int64_t>(rank), slot});
  }
  return stuck;
}

}  // namespace am::pipeline
