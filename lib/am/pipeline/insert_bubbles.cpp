#include <limits>

#include "am/pipeline/orders.h"

namespace am::pipeline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Aligner {
 public:
  Aligner(const std::vector<SlotList>& lists, const PipelineShape& shape, bool backwards_wait)
      : lists_(lists),
        shape_(shape),
        backwards_wait_(backwards_wait),
        forward_at_(static_cast<size_t>(shape.stages() * shape.microbatches), kNever),
        backward_at_(forward_at_) {}

  std::vector<SlotList> run() {
    std::vector<SlotList> aligned(lists_.size());
    std::vector<size_t> next(lists_.size(), 0);
    bool going_on = true;
    for (int64_t column = 0; going_on; ++column) {
      going_on = false;
      for (size_t rank = 0; rank < lists_.size(); ++rank) {
        if (next[rank] == lists_[rank].size()) continue;
        going_on = true;
        const Slot& slot = lists_[rank][next[rank]];
        if (!ready(slot, column)) {
          aligned[rank].emplace_back();
          continue;
        }
        for (const Action& action : slot.actions()) note(action, column);
        aligned[rank].push_back(slot);
        ++next[rank];
      }
    }
    return aligned;
  }

 private:
  int64_t& at(std::vector<int64_t>& made, int64_t stage, int64_t micro_batch) {
    return made[static_cast<size_t>(stage * shape_.microbatches + micro_batch)];
  }

  bool ready(const Slot& slot, int64_t column) {
    for (const Action& action : slot.actions()) {
      if (action.kind == Kind::kForward && action.stage > 0) {
        if (at(forward_at_, action.stage - 1, action.micro_batch) >= column) return false;
      }
      if (!backwards_wait_ || !makes_input_gradient(action.kind)) continue;
      const bool is_last = action.stage == shape_.stages() - 1;
      const int64_t made = is_last ? at(forward_at_, action.stage, action.micro_batch)
                                   : at(backward_at_, action.stage + 1, action.micro_batch);
      if (made >= column) return false;
    }
    return true;
  }

  void note(const Action& action, int64_t column) {
    if (action.kind == Kind::kForward) at(forward_at_, action.stage, action.micro_batch) = column;
    if (makes_input_gradient(action.kind)) {
      at(backward_at_, action.stage, action.micro_batch) = column;
    }
  }

  const std::vector<SlotList>& lists_;
  const PipelineShape& shape_;
  bool backwards_wait_;
  std::vector<int64_t> forward_at_;  // by stage and micro-batch: column of the forward
  // By stage and micro-batch: column of the pass that computes the gradient of the stage's input.
  std::vector<int64_t> backward_at_;
};

}  // namespace

std::vector<SlotList> insert_bubbles(const std::vector<SlotList>& lists, const PipelineShape& shape,
                                     bool backwards_wait) {
  return Aligner(lists, shape, backwards_wait).run();
}

}  // namespace am::pipeline
