#include "am/predict/time/pipeline_time.h"

#include <algorithm>

namespace am::predict {
namespace {

using pipeline::PipelineShape;

// Returns the largest number of micro-batches from pp + 1 to `wanted` that the schedule accepts. If
// the schedule accepts none of these numbers, returns the first of pp, 2 pp, ..., 7 pp that it
// accepts, or else 8 pp. With shape.may_stay_partly_full, returns `wanted` whenever the schedule
// accepts `wanted`, even if `wanted` is less than pp.
int64_t legal_microbatches(PipelineShape shape, int64_t wanted) {
  shape.microbatches = wanted;
  if (shape.may_stay_partly_full && !pipeline::violated_constraint(shape)) return wanted;
  for (int64_t count = wanted; count > shape.pp; --count) {
    shape.microbatches = count;
    if (!pipeline::violated_constraint(shape)) return count;
  }
  for (int64_t rounds = 1;; ++rounds) {
    shape.microbatches = rounds * shape.pp;
    if (rounds == 8 || !pipeline::violated_constraint(shape)) return shape.microbatches;
  }
}

pipeline::Schedule make(PipelineShape shape, int64_t microbatches) {
  shape.microbatches = microbatches;
  return pipeline::make_schedule(shape);
}

double computing(const pipeline::Schedule& order,
                 const std::vector<pipeline::StageDurations>& stages) {
  double total = 0.0;
  for (const pipeline::StageDurations& stage : stages) {
    total += stage.forward + stage.backward_input + stage.backward_weight;
  }
  return total * static_cast<double>(order.microbatches);
}

// Returns the seconds that one micro-batch's passes take on the rank with the most work.
double busiest(const std::vector<int64_t>& owners, int64_t ranks,
               const std::vector<pipeline::StageDurations>& stages) {
  std::vector<double> seconds(static_cast<size_t>(ranks));
  for (size_t i = 0; i < stages.size(); ++i) {
    const pipeline::StageDurations& stage = stages[i];
    seconds[static_cast<size_t>(owners[i])] +=
        stage.forward + stage.backward_input + stage.backward_weight;
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace

double least_seconds(const PipelineShape& shape,
                     const std::vector<pipeline::StageDurations>& stages) {
  const auto owners = pipeline::stage_owners(shape);
  // In schedules that split the backward, a rank's last pass may compute weight gradients, for
  // which no other stage waits. The step can then end with this pass, so `after` stays 0.
  const bool whole_backwards =
      shape.schedule.find("zero_bubble") == std::string::npos && shape.schedule != "dual_pipe_v";
  struct Rank {
    bool reached = false;
    double before = 0.0, own = 0.0, after = 0.0;
  };
  std::vector<Rank> ranks(static_cast<size_t>(shape.pp));
  double forward = 0.0;
  double backward = 0.0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const pipeline::StageDurations& stage = stages[i];
    Rank& rank = ranks[static_cast<size_t>(owners[i])];
    if (!rank.reached) rank = {.reached = true, .before = forward, .after = backward};
    rank.own += stage.forward + stage.backward_input + stage.backward_weight;
    forward += stage.forward;
    if (whole_backwards) backward += stage.backward_input;
  }
  double least = 0.0;
  for (const Rank& rank : ranks) {
    const double passes = rank.own * static_cast<double>(shape.microbatches);
    least = std::max(least, rank.before + passes + rank.after);
  }
  return least;
}

PipelineOrder::PipelineOrder(const PipelineShape& shape)
    : microbatches_(static_cast<double>(shape.microbatches)),
      owners_(pipeline::stage_owners(shape)) {
  if (shape.own) {
    short_ = pipeline::make_schedule(shape);
    return;
  }
  // The shorter simulated run has at most 2 pp micro-batches, unless the schedule accepts only
  // larger numbers. 2 pp micro-batches include the complete start and end of the schedule.
  constexpr int64_t kRounds = 2;
  const int64_t few = kRounds * shape.pp;
  const int64_t base = legal_microbatches(shape, std::min(shape.microbatches, few));
  short_ = make(shape, base);
  if (base != shape.microbatches) {
    longer_ = make(shape, legal_microbatches(shape, base + shape.pp));
    if (longer_->microbatches == base) longer_.reset();
  }
}

PipelineTime PipelineOrder::run(const std::vector<pipeline::StageDurations>& stages) const {
  pipeline::Durations durations;
  durations.stages = stages;
  const double base = pipeline::simulated_seconds(short_, durations);
  const auto done = static_cast<double>(short_.microbatches);
  PipelineTime time{base, 0.0};
  if (longer_) {
    const double longer = pipeline::simulated_seconds(*longer_, durations);
    const double more = static_cast<double>(longer_->microbatches) - done;
    const double period = std::max((longer - base) / more, busiest(owners_, short_.pp(), stages));
    time.seconds = std::max(base + period * (microbatches_ - done), base / done);
  } else if (done != microbatches_) {
    time.seconds = base * microbatches_ / done;
  }
  const double busy = computing(short_, stages) / done * microbatches_;
  const double all = time.seconds * static_cast<double>(short_.pp());
  time.bubble_fraction = all > 0.0 ? std::max(0.0, 1.0 - busy / all) : 0.0;
  return time;
}

}  // namespace am::predict
