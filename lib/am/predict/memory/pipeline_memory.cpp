// Memory of a rank of a pipeline. Walks through the rank's list of actions (forward, backward,
// gather, send, ... of one stage and micro-batch) in the order in which parallel/pp/pipeline.h
// executes it.

#include <algorithm>
#include <utility>
#include <vector>

#include "am/config/batch.h"
#include "am/layout/stages.h"
#include "am/predict/memory/memory_moments.h"

namespace am::predict {
namespace {

using pipeline::Action;
using pipeline::Kind;

class PipelineWalk : private MemoryMoments {
 public:
  PipelineWalk(const config::Plan& plan, const model::ModelConfig& config,
               const layout::Layout& layout, const ActivationContext& context, StepUnits step,
               const WalkedRank& who)
      : MemoryMoments(plan, config, layout, context, std::move(step), who),
        list_(*who.list),
        owners_(who.owners),
        positions_(*std::max_element(owners_.begin(), owners_.end()) + 1),
        hidden_(hidden_bytes(context, static_cast<double>(config.hidden_size))),
        states_(units_.size()),
        stages_(owners_.size()),
        under_way_(static_cast<size_t>(positions_)) {
    for (size_t i = 0; i < units_.size(); ++i) {
      Range& range = stages_[static_cast<size_t>(units_[i].stage)];
      if (range.end == 0) range.begin = i;
      range.end = i + 1;
    }
  }

  RankMemory run() {
    // A round is one run of the schedule. If a step has several rounds, two are walked through: the
    // second has the peak, because the gradients of the first are live when it begins.
    const auto micro_batches = config::batch_shape(plan_, layout_.mesh.sizes().dp()).micro_batches;
    defers_ = config::defers_gradient_sync(plan_.strategy);
    const bool rounds =
        micro_batches > layout::pipeline_shape(plan_.pipeline, positions_).microbatches;
    for (int round = rounds ? 0 : 1; round < 2; ++round) {
      reduces_ = round == 1;
      std::fill(under_way_.begin(), under_way_.end(), 0);
      now_.activations = 0;
      for (const pipeline::Slot& slot : list_) {
        for (const Action& action : slot.actions()) perform(action);
      }
    }
    update();
    return peak();
  }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct UnitState {
    bool whole = false;
    bool gathering = false;
    bool packed = false;  // the reduction's buffer has gradients that are not reduced yet
    // UnitBytes::all_packed() and UnitBytes::reduced_gradients are allocated; they stay until
    // the next step.
    bool has_packed_gradients = false;
    bool has_reduced_gradients = false;
  };

  // Returns the number of messages sent to the rank that runs `stage` whose buffers are still live.
  // The reference allows callers to change it.
  int& sent_to(int stage) {
    return under_way_[static_cast<size_t>(owners_[static_cast<size_t>(stage)])];
  }
  int last_stage() const { return static_cast<int>(owners_.size()) - 1; }

  void perform(const Action& action) {
    const Range& range = stages_[static_cast<size_t>(action.stage)];
    switch (action.kind) {
      case Kind::kUnshard:
        return unshard(range);
      case Kind::kReshard:
        return reshard(range);
      case Kind::kForward:
        return forward(action.stage, range);
      case Kind::kBackward:
        backward(action.stage, range, /*of_weights=*/true);
        if (!defers_) reduce(range);
        return;
      case Kind::kBackwardInput:
        return backward(action.stage, range, /*of_weights=*/false);
      case Kind::kBackwardWeight:
        weights(action.stage, range);
        if (!defers_) reduce(range);
        return;
      case Kind::kReduceGrad:
        if (reduces_) reduce(range);
        return;
      case Kind::kRecvForward:
      case Kind::kRecvBackward:
        now_.activations += hidden_;
        return;
      case Kind::kSendForward:
        return send(sent_to(action.stage + 1));
      case Kind::kSendBackward:
        return send(sent_to(action.stage - 1));
    }
  }

  // Counts a message that is sent: at most kMostUnderWay messages to one rank have live buffers. If
  // as many are live, the sender first waits for the oldest one and frees its buffer.
  void send(int& count) {
    if (count == pipeline::kMostUnderWay) {
      now_.activations -= hidden_;
    } else {
      ++count;
    }
  }

  void unshard(const Range& range) {
    for (size_t i = range.begin; i < range.end; ++i) {
      if (states_[i].whole) continue;
      states_[i].gathering = true;
      now_.communication += units_[i].gather_buffer;
    }
  }

  void reshard(const Range& range) {
    for (size_t i = range.begin; i < range.end; ++i) {
      if (states_[i].gathering) now_.communication -= units_[i].gather_buffer;
      if (states_[i].whole) now_.unsharded -= units_[i].full;
      states_[i].whole = states_[i].gathering = false;
    }
  }

  // Whether the head's backward frees the gradient of the logits. If the head's weight gradient is
  // deferred, the gradient of the logits stays, because the deferred computation reads it.
  bool ends_logits(bool of_weights) const { return of_weights || !step_.head_trains; }

  // Gathers a unit before it is used, if it is not gathered yet, and records the moment of the
  // gather.
  void make_whole(size_t i, std::string_view what) {
    const UnitBytes& unit = units_[i];
    if (states_[i].whole) return;
    if (!states_[i].gathering) now_.communication += unit.gather_buffer;
    now_.unsharded += unit.full;
    MemorySnapshot gathering = now_;
    gathering.communication += unit.gathering - unit.gather_buffer;
    record_moment(what, unit.name, ", gathering", gathering);
    now_.communication -= unit.gather_buffer;
    states_[i].whole = true;
    states_[i].gathering = false;
  }

  void forward(int stage, const Range& range) {
    // From here on the received tensor is counted in the activations of the stage's first unit,
    // whose input it is.
    if (stage > 0) now_.activations -= hidden_;
    for (size_t i = range.begin; i < range.end; ++i) {
      const UnitBytes& unit = units_[i];
      make_whole(i, "forward of ");
      MemorySnapshot computing = now_;
      computing.activations += unit.activations;
      if (unit.backward_runs) now_.activations = computing.activations;
      record_moment("forward of ", unit.name, "", computing);
      if (unit.reshards) {
        now_.unsharded -= unit.full - unit.kept;
        states_[i].whole = false;
      }
    }
    if (stage < last_stage()) {
      now_.activations += hidden_;
      return;
    }
    now_.activations += head_casts();
    record_loss("the loss");
    now_.logits += kept_logits();
  }

  // Records the moment of the loss of one micro-batch, in forward or in backward. now_ already
  // includes the logits of other micro-batches.
  void record_loss(std::string_view what) {
    MemorySnapshot loss = now_;
    loss.logits +=
        logits_bytes(context_, vocabulary_) + capped_logits_bytes(context_, config_, vocabulary_);
    record_moment(what, "", "", loss);
  }
  // Returns the bytes that the loss of one micro-batch saves until its backward.
  double kept_logits() const {
    return context_.tokens * vocabulary_ * context_.output_bytes +
           capped_logits_bytes(context_, config_, vocabulary_);
  }
  double head_casts() const {
    return cast_weights_bytes(context_, vocabulary_ * static_cast<double>(config_.hidden_size));
  }

  void backward(int stage, const Range& range, bool of_weights) {
    const bool last = stage == last_stage();
    if (last) {
      now_.logits -= kept_logits();
      record_loss("backward of the loss");
      now_.logits += logits_gradient_bytes(context_, vocabulary_);
    }
    for (size_t i = range.end; i-- > range.begin;) {
      const UnitBytes& unit = units_[i];
      if (!unit.backward_runs) break;
      if (unit.reshards && !unit.looked_up) make_whole(i, "backward of ");
      // The received gradient is that of the output of the stage's last unit. The unit's activation
      // gradients include it, so it is subtracted while they are live.
      const bool came = !last && i + 1 == range.end;
      if (came) now_.activations -= hidden_;
      compute_gradients(i, last && i + 1 == range.end, of_weights);
      if (came) now_.activations += hidden_;
      if (last && i + 1 == range.end) {
        if (ends_logits(of_weights)) now_.logits -= logits_gradient_bytes(context_, vocabulary_);
        now_.activations -= head_casts();
      }
      now_.activations -= unit.activations;
      if (!of_weights) now_.activations += unit.owed;
    }
    // The received gradient is freed. The gradient of the stage's input stays until it is sent to
    // the previous stage.
    if (!last) now_.activations -= hidden_;
    if (stage > 0) now_.activations += hidden_;
  }

  // Records the moments of BackwardBytes in the backward of unit number `i`. `of_weights`: weight
  // gradients are computed now, not deferred.
  void compute_gradients(size_t i, bool is_head, bool of_weights) {
    const UnitBytes& unit = units_[i];
    const BackwardBytes gradients = gradients_of(unit, is_head);
    const double gradient = of_weights ? unit.gradient : 0.0;
    MemorySnapshot computing = now_;
    begin_backward(unit, gradients, computing);
    if (!of_weights) computing.activations += unit.owed_first;
    const double buffer = states_[i].packed ? 0.0 : unit.reduce_buffer;
    const bool has_stored = std::exchange(states_[i].has_packed_gradients, true);
    const double stored = has_stored ? 0.0 : unit.all_packed();
    record_first(unit, gradients, computing, gradient, stored, buffer);
    now_.gradients += stored;
    computing.gradients += stored;
    states_[i].packed = true;
    now_.communication += buffer;
    computing.communication += buffer;
    if (is_head && ends_logits(of_weights)) {
      computing.logits -= logits_gradient_bytes(context_, vocabulary_);
    }
    computing.unsharded += gradient;
    computing.activations += gradients.later - gradients.first;
    if (!of_weights) computing.activations += unit.owed_later - unit.owed_first;
    record_moment("backward of ", unit.name, "", computing);
    computing.unsharded -= gradient;
    if (!of_weights) computing.activations += unit.owed_attention - unit.owed_later;
    end_backward(unit, gradients, computing);
  }

  // Computes the deferred weight gradients, in the order in which backward deferred them.
  void weights(int stage, const Range& range) {
    for (size_t i = range.end; i-- > range.begin;) {
      const UnitBytes& unit = units_[i];
      if (!unit.backward_runs) break;
      MemorySnapshot computing = now_;
      computing.unsharded += unit.gradient;
      record_moment("weights' gradients of ", unit.name, "", computing);
      now_.activations -= unit.owed;
      if (stage == last_stage() && i + 1 == range.end && step_.head_trains) {
        now_.logits -= logits_gradient_bytes(context_, vocabulary_);
      }
    }
  }

  void reduce(const Range& range) {
    for (size_t i = range.end; i-- > range.begin;) {
      if (!states_[i].packed) continue;
      if (!std::exchange(states_[i].has_reduced_gradients, true)) {
        now_.gradients += units_[i].reduced_gradients;
      }
      MemorySnapshot reducing = now_;
      reducing.communication += units_[i].reduced;
      record_moment("reducing ", units_[i].name, "", reducing);
      now_.communication -= units_[i].reduce_buffer;
      states_[i].packed = false;
    }
  }

  const std::vector<pipeline::Slot>& list_;
  const std::vector<int64_t>& owners_;
  int64_t positions_;    // number of ranks along pp
  double hidden_;        // bytes of a message between stages
  bool reduces_ = true;  // the current round executes REDUCE_GRAD; only the last one does
  bool defers_ = true;   // gradients are reduced at REDUCE_GRAD, not after each backward
  std::vector<UnitState> states_;
  std::vector<Range> stages_;   // indices of this rank's units that belong to a stage, [stage]
  std::vector<int> under_way_;  // number of sent messages with live buffers, [index along pp]
};

}  // namespace

RankMemory walk_pipeline(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout, const ActivationContext& context,
                         StepUnits step, const WalkedRank& who) {
  return PipelineWalk(plan, config, layout, context, std::move(step), who).run();
}

}  // namespace am::predict
