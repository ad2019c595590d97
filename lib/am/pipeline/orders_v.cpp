// zbv_zero_bubble (Qi et al., 2023) and dual_pipe_v (DeepSeek-AI's DualPipe, 2024, cut in half).
//
// Each rank has one stage on each arm of the V. On rank r, stage r is on the arm `down`, and stage
// 2 * pp - 1 - r is on the arm `up`. The orders consist of phases whose lengths follow from pp, the
// rank and the number of micro-batches. Within a phase, the micro-batches of a stage are in
// ascending order.
#include <algorithm>
#include <array>
#include <deque>

#include "am/pipeline/orders.h"

namespace am::pipeline {
namespace {

enum Arm { kDown, kUp };

// A deferred weight gradient: the backward was split, and only the part for the input has run.
struct Owed {
  size_t since = 0;  // length of the list when the weight gradient was deferred
  int32_t micro_batch = 0;
};

// Builds one rank's list of actions, and counts the passes of each arm of the V, that is, of the
// rank's first and second stage.
class Builder {
 public:
  // Passes on micro-batches numbered shape.microbatches or higher become bubbles.
  Builder(const PipelineShape& shape, int64_t rank)
      : stage_{static_cast<int32_t>(rank), static_cast<int32_t>(2 * shape.pp - 1 - rank)},
        microbatches_(shape.microbatches) {}

  void bubbles(int64_t count) { order_.resize(order_.size() + static_cast<size_t>(count)); }

  void forward(Arm arm) { add({Kind::kForward, stage_[arm], forwards_[arm]++}); }
  void backward(Arm arm) { add({Kind::kBackward, stage_[arm], backwards_[arm]++}); }

  void backward_input(Arm arm) {
    const int32_t micro_batch = backwards_[arm]++;
    owed_[arm].push_back({order_.size(), micro_batch});
    add({Kind::kBackwardInput, stage_[arm], micro_batch});
  }

  // Adds the oldest deferred weight gradient: of `arm`, or of either arm in the overload without an
  // argument. Does nothing if none is deferred.
  void backward_weight(Arm arm) {
    if (owed_[arm].empty()) return;
    add({Kind::kBackwardWeight, stage_[arm], owed_[arm].front().micro_batch});
    owed_[arm].pop_front();
  }
  void backward_weight() {
    const bool up_is_older =
        !owed_[kUp].empty() &&
        (owed_[kDown].empty() || owed_[kUp].front().since < owed_[kDown].front().since);
    backward_weight(up_is_older ? kUp : kDown);
  }

  void pair(Arm forward_arm, Arm backward_arm) {
    const Action forward{Kind::kForward, stage_[forward_arm], forwards_[forward_arm]++};
    const Action backward{Kind::kBackward, stage_[backward_arm], backwards_[backward_arm]++};
    order_.emplace_back(forward, backward);
  }

  int64_t forwards(Arm arm) const { return forwards_[arm]; }
  bool owes(Arm arm) const { return !owed_[arm].empty(); }
  SlotList take() { return std::move(order_); }

 private:
  void add(const Action& action) {
    order_.push_back(action.micro_batch < microbatches_ ? Slot(action) : Slot());
  }

  std::array<int32_t, 2> stage_;
  int64_t microbatches_;
  std::array<int32_t, 2> forwards_ = {0, 0};
  std::array<int32_t, 2> backwards_ = {0, 0};
  std::array<std::deque<Owed>, 2> owed_;
  SlotList order_;
};

}  // namespace

// The order is built for at least 2 * pp - 1 micro-batches, which fill the V. Passes on
// micro-batches that do not exist become bubbles.
SlotList zbv_zero_bubble_order(const PipelineShape& shape, int64_t rank) {
  const int64_t count = std::max(2 * shape.pp - 1, shape.microbatches);
  // Number of ranks from this rank to the turning point of the V, both included.
  const int64_t to_turn = shape.pp - rank;
  Builder build(shape, rank);
  const auto whole_backward = [&build](Arm arm) {
    build.backward_input(arm);
    build.backward_weight(arm);
  };
  build.bubbles(rank);
  for (int64_t i = 0; i < 2 * to_turn - 1; ++i) build.forward(kDown);
  for (int64_t i = 0; i < rank; ++i) {
    build.forward(kUp);
    build.forward(kDown);
  }
  for (int64_t i = 0; i < to_turn; ++i) {
    build.forward(kUp);
    whole_backward(kUp);
  }
  while (build.forwards(kUp) < count) {
    if (build.forwards(kDown) < count) build.forward(kDown);
    whole_backward(kDown);
    build.forward(kUp);
    whole_backward(kUp);
  }
  // Cool-down: the gradients of inputs come first, because other ranks wait for them.
  for (int64_t i = 0; i < rank; ++i) {
    build.backward_input(kDown);
    build.backward_input(kUp);
  }
  for (int64_t i = 0; i < to_turn; ++i) {
    build.backward_input(kDown);
    build.backward_weight(kDown);
  }
  for (int64_t i = 0; i < rank; ++i) build.backward_weight(kUp);
  while (build.owes(kDown)) build.backward_weight(kDown);
  return build.take();
}

SlotList dual_pipe_v_order(const PipelineShape& shape, int64_t rank) {
  // Number of ranks after this rank, up to the turning point of the V.
  const int64_t behind = shape.pp - 1 - rank;
  Builder build(shape, rank);
  // Warm-up.
  for (int64_t i = 0; i < 2 * behind; ++i) build.forward(kDown);
  for (int64_t i = 0; i < rank + 1; ++i) {
    build.forward(kDown);
    build.forward(kUp);
  }
  for (int64_t i = 0; i < behind; ++i) {
    build.backward_input(kUp);
    build.backward_weight();
    build.forward(kUp);
  }
  // Steady state: every forward overlaps with a backward of the other arm. The only exception is
  // the first step of this phase on the last rank, the turning point: the forward and the backward
  // of this step do not overlap, so that the backward ends earlier.
  const int64_t steady = shape.microbatches - 2 * shape.pp + rank + 1;
  for (int64_t i = 0; i < steady; ++i) {
    if (i == 0 && behind == 0) {
      build.forward(kDown);
      build.backward(kUp);
    } else {
      build.pair(kDown, kUp);
    }
    build.pair(kUp, kDown);
  }
  // Cool-down.
  for (int64_t i = 0; i < behind; ++i) {
    build.backward(kUp);
    build.pair(kUp, kDown);
  }
  // In the second half of this loop, weight gradients are deferred. They fill the bubbles after the
  // loop.
  for (int64_t i = 0; i < 2 * (rank + 1); ++i) {
    const Arm arm = i % 2 == 0 ? kUp : kDown;
    if (i > rank) {
      build.backward_input(arm);
    } else {
      build.backward(arm);
    }
  }
  for (int64_t i = 0; i < behind; ++i) {
    build.backward_weight();
    build.backward_input(kDown);
  }
  for (int64_t i = 0; i < rank + 1; ++i) build.backward_weight();
  return build.take();
}

}  // namespace am::pipeline
