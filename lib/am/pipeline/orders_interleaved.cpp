// interleaved_1f1b (Narayanan et al., 2021) and interleaved_zero_bubble (ZB1P of Qi et al., 2023).
//
// The micro-batches of one run of the schedule are divided into groups of equal size, called rounds
// in this file. A round has at least pp micro-batches, or all micro-batches if there are fewer than
// pp. Within a round, a rank runs its first stage on all micro-batches of the round, then its
// second stage, and so on; backwards run in the reverse order of stages. The stage and the
// micro-batch of a rank's k-th forward thus follow from k. The two schedules differ in the number
// of forwards before the first backward, in the bubbles, and in the position of the weight
// gradients.
#include <algorithm>

#include "am/pipeline/orders.h"

namespace am::pipeline {
namespace {

class Interleaved {
 public:
  // `lead`: number of additional forwards that a rank runs before its first backward, compared with
  // the next rank.
  Interleaved(const PipelineShape& shape, int64_t rank, int64_t lead)
      : shape_(shape),
        rank_(rank),
        round_(shape.microbatches / std::max<int64_t>(1, shape.microbatches / shape.pp)),
        count_(shape.virtual_stages * shape.microbatches),
        ahead_(
            std::min((shape.virtual_stages - 1) * round_ + lead * (shape.pp - 1 - rank), count_)) {}

  int64_t count() const { return count_; }
  int64_t ahead() const { return ahead_; }

  // Returns a slot with this rank's k-th pass of this kind, forward or backward.
  Slot pass(Kind kind, int64_t k) const {
    const int64_t turn = k / round_ % shape_.virtual_stages;
    const int64_t lap = kind == Kind::kForward ? turn : shape_.virtual_stages - 1 - turn;
    const int64_t micro_batch = k / (round_ * shape_.virtual_stages) * round_ + k % round_;
    return Action{kind, static_cast<int32_t>(lap * shape_.pp + rank_),
                  static_cast<int32_t>(micro_batch)};
  }

  SlotList start() const {
    SlotList order(static_cast<size_t>(rank_));
    for (int64_t k = 0; k < ahead_; ++k) order.push_back(pass(Kind::kForward, k));
    return order;
  }

 private:
  const PipelineShape& shape_;
  int64_t rank_;
  int64_t round_;  // number of micro-batches per round
  int64_t count_;  // number of forwards of this rank, which is also its number of backwards
  int64_t ahead_;  // number of forwards before forwards and backwards alternate
};

void add_bubbles(SlotList& order, int64_t count) {
  if (count > 0) order.resize(order.size() + static_cast<size_t>(count));
}

}  // namespace

SlotList interleaved_1f1b_order(const PipelineShape& shape, int64_t rank) {
  const Interleaved passes(shape, rank, 2);
  SlotList order = passes.start();
  if (passes.ahead() > 0) {
    // A slot by PyTorch's formula. Bubbles fill the list up to this slot. As in PyTorch, the slot
    // itself then has a forward, or stays empty if no forward is left, and the first backward is in
    // the next slot.
    const int64_t arrives = shape.stages() + 2 * (shape.pp - 1 - rank);
    add_bubbles(order, arrives - static_cast<int64_t>(order.size()));
  }
  for (int64_t k = 0; k < passes.count(); ++k) {
    const int64_t forward = passes.ahead() + k;
    // After this rank's last forward, every second slot stays empty, as in PyTorch: other ranks may
    // still run forwards in these slots.
    order.push_back(forward < passes.count() ? passes.pass(Kind::kForward, forward) : Slot());
    order.push_back(passes.pass(Kind::kBackward, k));
  }
  return order;
}

// Defers each weight gradient by `rank` backwards. The deferred weight gradients fill the rank's
// bubbles, which are longer on later ranks.
SlotList interleaved_zero_bubble_order(const PipelineShape& shape, int64_t rank) {
  const Interleaved passes(shape, rank, 1);
  SlotList order = passes.start();
  if (passes.ahead() > 0) add_bubbles(order, shape.pp - 1 - rank);
  for (int64_t k = 0; k < passes.count(); ++k) {
    const int64_t forward = passes.ahead() + k;
    if (forward < passes.count()) order.push_back(passes.pass(Kind::kForward, forward));
    order.push_back(passes.pass(Kind::kBackwardInput, k));
    if (k >= rank) order.push_back(passes.pass(Kind::kBackwardWeight, k - rank));
  }
  for (int64_t k = std::max<int64_t>(0, passes.count() - rank); k < passes.count(); ++k) {
    order.push_back(passes.pass(Kind::kBackwardWeight, k));
  }
  return order;
}

}  // namespace am::pipeline
