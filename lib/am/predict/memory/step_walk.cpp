// Predicts the memory of a rank during a step by simulating the rank's actions in the order in
// which they run. An action is a forward, backward, gather, send, ... of one stage. In a pipeline,
// the actions are those that parallel/pp/pipeline.h executes; otherwise they are forward and
// backward of the whole model.

#include <algorithm>
#include <utility>
#include <vector>

#include "am/config/batch.h"
#include "am/layout/units.h"
#include "am/pipeline/communication.h"
#include "am/predict/memory/memory_moments.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {
namespace {

using pipeline::Action;
using pipeline::Kind;

// Returns `0F0 0B0`, the actions of a model without pipeline: forward and backward of its only
// stage. The list contains no actions that gather, free or reduce FSDP units: StepWalk gathers,
// frees and reduces each unit when forward or backward reaches the unit.
const std::vector<pipeline::Slot>& list_of_whole_model() {
  static const auto kList = pipeline::make_rank_order(pipeline::PipelineShape{}, 0);
  return kList;
}

class StepWalk {
 public:
  StepWalk(const config::Plan& plan, const model::ModelConfig& config, const layout::Layout& layout,
           const ActivationContext& context, const StepUnits& step, const WalkedRank& who)
      : config_(config),
        context_(context),
        step_(step),
        units_(step.units),
        batch_(config::batch_shape(plan, layout.mesh.sizes().dp())),
        defers_(config::defers_gradient_sync(plan.strategy)),
        is_whole_(who.list == nullptr),
        reduces_each_(!defers_ && !is_whole_),
        overlaps_(layout::overlaps_reduction(plan.strategy)),
        list_(is_whole_ ? list_of_whole_model() : *who.list),
        owners_(is_whole_ ? std::vector<int64_t>{0} : who.owners),
        hidden_(hidden_bytes(context, static_cast<double>(config.hidden_size))),
        states_(units_.size()),
        stages_(owners_.size()),
        under_way_(static_cast<size_t>(*std::max_element(owners_.begin(), owners_.end()) + 1)),
        now_(idle()),
        moments_(constant_bytes(plan, config, layout, context, step, who.rank)) {
    if (is_whole_) prefetches_ = layout::prefetch_depths(plan.strategy);
    if (who.owners.back() == who.stage) {
      const size_t weight = layout.inventory.weight_of(model::Role::kHead);
      vocabulary_ = static_cast<double>(
          layout.parameters[weight].tp_shape(layout.mesh, who.in_layout).front());
    }
    for (size_t i = 0; i < units_.size(); ++i) {
      Range& range = stages_[is_whole_ ? 0 : static_cast<size_t>(units_[i].stage)];
      if (range.end == 0) range.begin = i;
      range.end = i + 1;
    }
  }

  // Returns the peak, without RankMemory::rank and RankMemory::stage.
  RankMemory run() {
    // A round is one run of the list of actions: without a pipeline, one micro-batch. If a step
    // needs several rounds, two rounds are simulated, and only the second is recorded. The second
    // round contains the peak, because the gradients of the first round are live when it begins.
    if (batch_.micro_batches > batch_.in_round) run_round(/*is_last=*/false);
    run_round(/*is_last=*/true);
    update();
    return moments_.peak();
  }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct UnitState {
    bool whole = false;
    bool gathering = false;
    bool kept = false;    // UnitBytes::kept is live
    bool packed = false;  // the reduction's buffer has gradients that are not reduced yet
    // These bytes stay allocated until the next step.
    bool has_packed_gradients = false;   // UnitBytes::all_packed() is allocated
    bool has_reduced_gradients = false;  // UnitBytes::reduced_gradients is allocated
  };

  void record(std::string_view what, std::string_view of, std::string_view how,
              const MemorySnapshot& moment) {
    if (is_last_round_) moments_.record(what, of, how, moment);
  }

  // Returns the bytes that are live during the whole step, without those of constant_bytes().
  MemorySnapshot idle() const {
    return {.unsharded = step_.pooled_parameters + step_.ignored,
            .communication = step_.pooled_messages};
  }

  void run_round(bool is_last) {
    is_last_round_ = is_last;
    std::fill(under_way_.begin(), under_way_.end(), 0);
    now_.activations = 0;
    if (is_whole_) free_units();
    for (const pipeline::Slot& slot : list_) {
      for (const Action& action : slot.actions()) perform(action);
    }
    if (!overlaps_) reduce_at_end();
  }

  // Frees the gathered parameters and the reduction's buffers that are still live after a
  // micro-batch. The buckets' buffers stay if the reduction is deferred.
  void free_units() {
    now_.unsharded = idle().unsharded;
    for (UnitState& state : states_) state.whole = state.kept = false;
    reducing_ = 0;
    if (!defers_ && std::exchange(has_buckets_, false)) {
      now_.communication -= step_.bucket_buffers;
    }
  }

  // Returns a reference to the number of messages with live buffers that were sent to the rank that
  // runs `stage`.
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
        if (reduces_each_) reduce(range);
        return;
      case Kind::kBackwardInput:
        return backward(action.stage, range, /*of_weights=*/false);
      case Kind::kBackwardWeight:
        weights(action.stage, range);
        if (reduces_each_) reduce(range);
        return;
      case Kind::kReduceGrad:
        if (is_last_round_) reduce(range);
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

  // Counts a message that is sent: at most kMostUnderWay messages to one rank have live buffers. At
  // this limit, the sender first waits for the oldest message and frees its buffer.
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
      if (std::exchange(states_[i].gathering, false)) {
        now_.communication -= units_[i].gather_buffer;
      }
      free_unit(i);
    }
  }

  // Frees the gathered parameters of unit number `i`: all of them, or the part that was kept after
  // forward.
  void free_unit(size_t i) {
    if (std::exchange(states_[i].whole, false)) now_.unsharded -= units_[i].full;
    if (std::exchange(states_[i].kept, false)) now_.unsharded -= units_[i].kept;
  }

  // Whether the unit is gathered for its backward. True if the unit was freed after its forward and
  // its backward needs parameters, unlike that of an embedding without a norm.
  static bool is_gathered_again(const UnitBytes& unit) {
    return unit.reshards && unit.backward_reads;
  }

  // Returns the bytes of prefetched gathers: those of the `count` units that follow unit number `i`
  // in forward (step = 1) or in backward (step = -1). Units that backward does not gather add 0
  // bytes.
  double gathering_ahead(size_t i, int64_t step, int64_t count) const {
    double bytes = 0;
    for (int64_t at = static_cast<int64_t>(i) + step;
         count > 0 && at >= 0 && at < static_cast<int64_t>(units_.size()); --count, at += step) {
      const UnitBytes& unit = units_[static_cast<size_t>(at)];
      if (step < 0 && !(is_gathered_again(unit) && unit.backward_runs)) continue;
      bytes += unit.gather_buffer;
    }
    return bytes;
  }

  // Gathers unit number `i` if it is not gathered yet, and records the live memory during the
  // gather. `beside`: bytes of other messages that are live during the gather.
  void make_whole(size_t i, std::string_view what, double beside) {
    const UnitBytes& unit = units_[i];
    if (states_[i].whole) return;
    if (!states_[i].gathering) now_.communication += unit.gather_buffer;
    now_.unsharded += unit.full;
    MemorySnapshot gathering = now_;
    gathering.communication += unit.gathering - unit.gather_buffer + beside;
    record(what, unit.name, ", gathering", gathering);
    now_.communication -= unit.gather_buffer;
    states_[i].whole = true;
    states_[i].gathering = false;
  }

  void forward(int stage, const Range& range) {
    // The received tensor is the input of the stage's first unit. From here on, the activations of
    // this unit include the tensor.
    if (stage > 0) now_.activations -= hidden_;
    for (size_t i = range.begin; i < range.end; ++i) {
      const UnitBytes& unit = units_[i];
      make_whole(i, "forward of ", gathering_ahead(i, 1, prefetches_.forward - 1));
      MemorySnapshot computing = now_;
      computing.activations += unit.activations;
      // A unit without backward saves nothing: each of its tensors is freed as soon as the next one
      // is computed.
      if (unit.backward_runs) now_.activations = computing.activations;
      computing.activations += unit.passing;
      computing.communication += gathering_ahead(i, 1, prefetches_.forward);
      record("forward of ", unit.name, "", computing);
      if (unit.reshards) {
        free_unit(i);
        states_[i].kept = true;
        now_.unsharded += unit.kept;
      }
    }
    if (stage < last_stage()) {
      now_.activations += hidden_;
      return;
    }
    now_.activations += head_casts();
    // Without pipeline, backward follows at once and records the memory of the loss.
    if (!is_whole_) record_loss("the loss");
    now_.logits += kept_logits();
  }

  // Records the live memory during the loss of one micro-batch, in forward or in backward. now_
  // already includes the logits of other micro-batches.
  void record_loss(std::string_view what) {
    MemorySnapshot loss = now_;
    loss.logits +=
        logits_bytes(context_, vocabulary_) + capped_logits_bytes(context_, config_, vocabulary_);
    record(what, "", "", loss);
  }
  // Returns the bytes that the loss of one micro-batch saves until its backward.
  double kept_logits() const {
    return context_.tokens * vocabulary_ * context_.output_bytes +
           capped_logits_bytes(context_, config_, vocabulary_);
  }
  double head_casts() const {
    return cast_weights_bytes(context_, vocabulary_ * static_cast<double>(config_.hidden_size));
  }

  // Whether the head's backward frees the gradient of the logits. If the head's weight gradient is
  // deferred, the gradient of the logits stays, because the deferred computation reads it.
  bool ends_logits(bool of_weights) const { return of_weights || !step_.head_trains; }

  void backward(int stage, const Range& range, bool of_weights) {
    const bool last = stage == last_stage();
    if (last) {
      now_.logits -= kept_logits();
      record_loss("backward of the loss");
      now_.logits += logits_gradient_bytes(context_, vocabulary_);
    }
    for (size_t i = range.end; i-- > range.begin;) {
      const UnitBytes& unit = units_[i];
      if (!unit.backward_runs) break;  // earlier units are frozen too
      if (is_gathered_again(unit)) make_whole(i, "backward of ", reducing_);
      // The gradient received from the next stage is the gradient of the last unit's output. The
      // activation gradients of this unit include it, so the received bytes are subtracted while
      // the unit computes.
      const bool came = !last && i + 1 == range.end;
      if (came) now_.activations -= hidden_;
      compute_gradients(i, last && i + 1 == range.end, of_weights);
      if (came) now_.activations += hidden_;
      if (last && i + 1 == range.end) {
        if (ends_logits(of_weights)) now_.logits -= logits_gradient_bytes(context_, vocabulary_);
        if (!is_whole_) now_.activations -= head_casts();
      }
      now_.activations -= unit.activations;
      if (!of_weights) now_.activations += unit.owed;
      if (is_whole_) end_unit(i);
    }
    // The received gradient is freed. The gradient of the stage's input stays until it is sent to
    // the previous stage.
    if (!last) now_.activations -= hidden_;
    if (stage > 0) now_.activations += hidden_;
  }

  // Records the live memory at each moment of BackwardBytes in the backward of unit number `i`.
  // `of_weights`: weight gradients are computed now, not deferred.
  void compute_gradients(size_t i, bool is_last, bool of_weights) {
    const UnitBytes& unit = units_[i];
    const bool is_head = unit.layer < 0 && is_last && vocabulary_ > 0.0;
    const BackwardBytes gradients =
        is_head ? head_backward(context_, config_, vocabulary_, step_.head_trains) : unit.backward;
    const double gradient = of_weights ? unit.gradient : 0.0;
    MemorySnapshot computing = now_;
    computing.communication += reducing_ + gathering_ahead(i, -1, prefetches_.backward);
    computing.activations += unit.recomputed + gradients.rows_arrive;
    if (gradients.rows_arrive > 0.0) {
      record("backward of ", unit.name, ", rows to experts", computing);
    }
    computing.activations += gradients.first - gradients.rows_arrive;
    if (!of_weights) computing.activations += unit.owed_first;

    // Buffers into which gradients are packed: the reduction's, and the stored gradients.
    MemorySnapshot packing;
    if (!std::exchange(states_[i].packed, true)) packing.communication = unit.reduce_buffer;
    const bool is_new = !std::exchange(states_[i].has_packed_gradients, true);
    if (is_new) packing.gradients = is_whole_ ? unit.packed_gradients : unit.all_packed();
    MemorySnapshot first = computing;
    if (gradients.packed_first) {
      first += packing;
    } else {
      first.unsharded += gradient;
    }
    if (unit.looked_up && gradient > 0.0 && waiting_gradient_ > 0.0) {
      // Autograd writes the sum of the embedding's and the tied head's gradients to a third tensor.
      first.unsharded += gradient;
      now_.unsharded -= waiting_gradient_;
      computing.unsharded -= std::exchange(waiting_gradient_, 0.0);
    }
    record("backward of ", unit.name, "", first);
    if (is_whole_ && unit.fills_buckets && !std::exchange(has_buckets_, true)) {
      packing.communication += step_.bucket_buffers;
    }
    now_ += packing;
    computing += packing;

    if (is_last && ends_logits(of_weights)) {
      computing.logits -= logits_gradient_bytes(context_, vocabulary_);
    }
    computing.unsharded += gradient;
    computing.activations += gradients.later - gradients.first;
    if (!of_weights) computing.activations += unit.owed_later - unit.owed_first;
    record("backward of ", unit.name, "", computing);
    if (is_whole_ && is_new && unit.inner_gradients > 0.0) {
      now_.gradients += unit.inner_gradients;
      computing.gradients += unit.inner_gradients;
      MemorySnapshot in_last = computing;
      in_last.activations += gradients.last_expert - gradients.later;
      record("backward of ", unit.name, ", the last expert", in_last);
    }

    // At the two moments below, no parameter's gradient is live.
    computing.unsharded -= gradient;
    if (!of_weights) computing.activations += unit.owed_attention - unit.owed_later;
    if (gradients.rows_return > 0.0) {
      MemorySnapshot returning = computing;
      returning.activations += gradients.rows_return - gradients.later;
      record("backward of ", unit.name, ", rows from experts", returning);
    }
    if (gradients.attention > 0.0) {
      computing.activations += gradients.attention - gradients.later;
      record("backward of ", unit.name, ", attention", computing);
    }
    if (is_whole_ && is_new) now_.gradients += unit.late_gradients;
  }

  // Simulates the computation of the deferred weight gradients, in the order of backward.
  void weights(int stage, const Range& range) {
    for (size_t i = range.end; i-- > range.begin;) {
      const UnitBytes& unit = units_[i];
      if (!unit.backward_runs) break;
      MemorySnapshot computing = now_;
      computing.unsharded += unit.gradient;
      record("weights' gradients of ", unit.name, "", computing);
      now_.activations -= unit.owed;
      if (stage == last_stage() && i + 1 == range.end && step_.head_trains) {
        now_.logits -= logits_gradient_bytes(context_, vocabulary_);
      }
    }
  }

  // Frees the gathered parameters of unit number `i` after its backward and starts the reduction of
  // its gradients. The reduction is in progress while the next unit of backward computes.
  void end_unit(size_t i) {
    const UnitBytes& unit = units_[i];
    // Autograd keeps the tied head's gradient until it is added to the embedding's.
    if (unit.waits_for_end) {
      now_.unsharded += unit.gradient;
      waiting_gradient_ = unit.gradient;
    }
    // Without overlap, gradients are reduced after backward, and their buffers stay live until
    // then.
    if (unit.waits_for_end || !overlaps_) return;
    free_unit(i);
    if (defers_ && !is_last_round_) return;
    reduce_unit(i, "backward of ", ", reducing");
    reducing_ = unit.pending();
  }

  void reduce(const Range& range) {
    for (size_t i = range.end; i-- > range.begin;) {
      if (states_[i].packed) reduce_unit(i, "reducing ", "");
    }
  }

  // Simulates the start of the reduction of unit number `i`. The buffers of the previous reduction
  // (reducing_) are freed only afterwards, so the buffers of both reductions are live.
  void reduce_unit(size_t i, std::string_view what, std::string_view how) {
    const UnitBytes& unit = units_[i];
    allocate_reduced(i);
    MemorySnapshot reducing = now_;
    reducing.communication += reducing_ + unit.reduced;
    record(what, unit.name, how, reducing);
    now_.communication -= unit.reduce_buffer;
    states_[i].packed = false;
  }

  // Records the live memory during the reduction of all gradients after backward.
  void reduce_at_end() {
    if (!is_last_round_) return;
    for (size_t i = 0; i < units_.size(); ++i) allocate_reduced(i);
    record("reducing the gradients", "", "", now_);
  }

  void allocate_reduced(size_t i) {
    if (std::exchange(states_[i].has_reduced_gradients, true)) return;
    now_.gradients += units_[i].reduced_gradients;
  }

  // Records the live memory during the optimizer's update: the gradients of all units are live.
  // AdamW and similar optimizers update in place; Muon needs buffers for one unit at a time.
  // Validation is not recorded: it needs less memory than a training step's forward, because
  // validation saves no activations and computes no gradients.
  void update() {
    MemorySnapshot updating = idle();
    for (const UnitBytes& unit : units_) updating.gradients += unit.gradients();
    record("the optimizer's update", "", "", updating);
    for (const UnitBytes& unit : units_) {
      if (unit.orthogonalizing == 0.0) continue;
      MemorySnapshot orthogonalizing = updating;
      orthogonalizing.communication += unit.orthogonalizing;
      record("update of ", unit.name, "", orthogonalizing);
    }
  }

  const model::ModelConfig& config_;
  const ActivationContext& context_;
  const StepUnits& step_;
  const std::vector<UnitBytes>& units_;
  const config::BatchShape batch_;
  // Whether gradients are reduced only in the step's last round (in a pipeline by the action
  // REDUCE_GRAD) instead of in each backward.
  const bool defers_;
  // Whether the model has no pipeline. FSDP units are then gathered, freed and reduced as forward
  // and backward reach them, not by actions of a pipeline schedule.
  const bool is_whole_;
  const bool reduces_each_;  // in a pipeline: each backward of a stage reduces its gradients
  const bool overlaps_;      // gradients are reduced during backward, not after it
  layout::PrefetchDepths prefetches_;  // zero in a pipeline, whose schedule has actions for gathers
  const std::vector<pipeline::Slot>& list_;
  const std::vector<int64_t> owners_;
  double hidden_;                  // bytes of a message between stages
  double waiting_gradient_ = 0.0;  // gradient of the tied head that is not yet added
  double vocabulary_ = 0.0;        // size of the rank's slice of the vocabulary; 0 without the head
  std::vector<UnitState> states_;
  std::vector<Range> stages_;   // indices of this rank's units that belong to a stage, [stage]
  std::vector<int> under_way_;  // number of sent messages with live buffers, [index along pp]
  bool is_last_round_ = true;   // only the last round's memory is recorded
  double reducing_ = 0;         // bytes of the buffers of the reduction that is in progress
  bool has_buckets_ = false;    // the buckets' buffers are allocated
  // Memory that is live between the computations of two units: gathered parameters that are not yet
  // freed, saved activations of units whose backward has not run, stored gradients, and
  // communication buffers. The memory that only a running unit needs is added to a copy.
  MemorySnapshot now_;
  MemoryMoments moments_;
};

}  // namespace

RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, const ActivationContext& context,
                     const StepUnits& step, const WalkedRank& who) {
  RankMemory peak = StepWalk(plan, config, layout, context, step, who).run();
  peak.rank = who.rank;
  peak.stage = who.stage;
  return peak;
}

}  // namespace am::predict
