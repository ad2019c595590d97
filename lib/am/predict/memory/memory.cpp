#include "am/predict/memory/memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "am/config/batch.h"
#include "am/layout/stages.h"
#include "am/layout/units.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory_moments.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {
namespace {

class Walk : private MemoryMoments {
 public:
  using MemoryMoments::MemoryMoments;

  RankMemory run() {
    forward();
    backward();
    update();
    return peak();
  }

 private:
  // Returns the bytes of the gathers that run ahead for |count| FSDP units, starting with number
  // `from`: upwards if count is positive, downwards if it is negative. In backward, skips units
  // that need no gather.
  double gathering_ahead(size_t from, int64_t count, bool in_backward) const {
    double bytes = 0;
    const int64_t step = count < 0 ? -1 : 1;
    auto at = static_cast<int64_t>(from);
    for (int64_t i = 0; i < std::abs(count); ++i, at += step) {
      if (at < 0 || at >= static_cast<int64_t>(units_.size())) break;
      const UnitBytes& unit = units_[static_cast<size_t>(at)];
      if (in_backward && (!unit.reshards || unit.looked_up || !unit.backward_runs)) continue;
      bytes += unit.gather_buffer;
    }
    return bytes;
  }

  void forward() {
    const int64_t depth = layout::prefetch_depths(plan_.strategy).forward;
    // Only the last micro-batch is walked through. It has the peak, because the gradients of the
    // earlier micro-batches are live when it begins.
    if (accumulates_) now_.communication += step_.bucket_buffers;
    for (const UnitBytes& unit : units_) {
      if (accumulates_ && !unit.waits_for_end) now_.communication += unit.reduce_buffer;
      if (has_earlier_batches_) now_.gradients += unit.all_packed();
      if (adds_reductions_) now_.gradients += unit.reduced_gradients;
    }
    for (size_t i = 0; i < units_.size(); ++i) {
      const UnitBytes& unit = units_[i];
      now_.unsharded += unit.full;
      MemorySnapshot gathering = now_;
      gathering.communication +=
          unit.gathering + gathering_ahead(i + 1, std::max<int64_t>(0, depth - 1), false);
      record_moment("forward of ", unit.name, ", gathering", gathering);
      MemorySnapshot computing = now_;
      computing.activations += unit.activations;
      // A unit without backward saves nothing: each of its tensors is freed when the next exists.
      if (unit.backward_runs) now_.activations = computing.activations;
      computing.communication += gathering_ahead(i + 1, depth, false);
      record_moment("forward of ", unit.name, "", computing);
      if (unit.reshards) now_.unsharded -= unit.full - unit.kept;
    }
    const double head = vocabulary_ * static_cast<double>(config_.hidden_size);
    now_.activations += cast_weights_bytes(context_, head);
    now_.logits =
        logits_bytes(context_, vocabulary_) + capped_logits_bytes(context_, config_, vocabulary_);
    record_moment("backward of the loss", "", "", now_);
    now_.logits = logits_gradient_bytes(context_, vocabulary_);
  }

  // Runs from the last unit to the first.
  void backward() {
    for (size_t i = units_.size(); i-- > 0;) {
      const UnitBytes& unit = units_[i];
      if (!unit.backward_runs) break;  // earlier units are frozen too
      gather_again(unit);
      compute_gradients(i);
      now_.logits = 0;
      now_.activations -= unit.activations;
      reduce_gradients(unit);
    }
    if (!layout::overlaps_reduction(plan_.strategy)) reduce_at_end();
  }

  void gather_again(const UnitBytes& unit) {
    if (!unit.reshards || unit.looked_up) return;
    now_.unsharded += unit.full;
    MemorySnapshot gathering = now_;
    gathering.communication += unit.gathering + reducing_;
    record_moment("backward of ", unit.name, ", gathering", gathering);
  }

  // Records the moments of BackwardBytes in the backward of unit number `i`.
  void compute_gradients(size_t i) {
    const UnitBytes& unit = units_[i];
    const BackwardBytes gradients = gradients_of(unit, i + 1 == units_.size());
    const int64_t depth = layout::prefetch_depths(plan_.strategy).backward;
    const bool reduces_now = !unit.waits_for_end && !accumulates_;
    const double buffer = reduces_now ? unit.reduce_buffer : 0.0;
    MemorySnapshot computing = now_;
    begin_backward(unit, gradients, computing);
    computing.communication += reducing_ + (i == 0 ? 0.0 : gathering_ahead(i - 1, -depth, true));
    const double stored = has_earlier_batches_ ? 0.0 : unit.packed_gradients;
    record_first(unit, gradients, computing, unit.gradient, stored, buffer);
    now_.gradients += stored;
    computing.gradients += stored;
    if (unit.fills_buckets && reduces_now && !has_buckets_) {
      has_buckets_ = true;
      now_.communication += step_.bucket_buffers;
      computing.communication += step_.bucket_buffers;
    }
    computing.logits = 0;  // the head's backward has freed their gradient
    computing.unsharded += unit.gradient;
    computing.communication += buffer;
    computing.activations += gradients.later - gradients.first;
    record_moment("backward of ", unit.name, "", computing);
    if (!has_earlier_batches_ && unit.inner_gradients > 0.0) {
      now_.gradients += unit.inner_gradients;
      computing.gradients += unit.inner_gradients;
      MemorySnapshot in_last = computing;
      in_last.activations += gradients.last_expert - gradients.later;
      record_moment("backward of ", unit.name, ", the last expert", in_last);
    }
    computing.unsharded -= unit.gradient;
    end_backward(unit, gradients, computing);
    if (!has_earlier_batches_) now_.gradients += unit.late_gradients;
  }

  // Starts the reduction of the unit's gradients and frees its gathered parameters. The reduction
  // is in progress while the next unit of backward computes.
  void reduce_gradients(const UnitBytes& unit) {
    // Autograd keeps the tied head's gradient until it is added to the embedding's.
    if (unit.waits_for_end) {
      now_.unsharded += unit.gradient;
      return;
    }
    // Without overlap the gradients are reduced when backward is over, and their buffers stay.
    if (!layout::overlaps_reduction(plan_.strategy)) {
      if (!accumulates_) now_.communication += unit.reduce_buffer;
      return;
    }
    if (!unit.looked_up || !unit.reshards) now_.unsharded -= unit.full;
    now_.unsharded -= unit.kept;
    if (!adds_reductions_) now_.gradients += unit.reduced_gradients;
    // The buffers of the previous reduction (reducing_) are freed when this reduction has started,
    // so both are live at this moment.
    MemorySnapshot reducing = now_;
    reducing.communication += reducing_ + unit.reduced;
    if (!accumulates_) reducing.communication += unit.reduce_buffer;
    record_moment("backward of ", unit.name, ", reducing", reducing);
    if (accumulates_) now_.communication -= unit.reduce_buffer;
    reducing_ = unit.pending();
  }

  // Records the reduction of all gradients after backward.
  void reduce_at_end() {
    for (const UnitBytes& unit : units_) {
      if (!adds_reductions_) now_.gradients += unit.reduced_gradients;
    }
    record_moment("reducing the gradients", "", "", now_);
  }

  const bool has_earlier_batches_ =
      config::batch_shape(plan_, layout_.mesh.sizes().dp()).micro_batches > 1;
  const bool accumulates_ = keeps_whole_gradients(plan_, layout_.mesh.sizes());
  // Whether each micro-batch's gradients are reduced and added to those of the earlier ones.
  const bool adds_reductions_ = has_earlier_batches_ && !accumulates_;

  double reducing_ = 0;       // bytes of the buffers of the reduction that is in progress
  bool has_buckets_ = false;  // the buckets' buffers are allocated
};

}  // namespace

int64_t MemoryComponents::total() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t total = 0;
  for (const int64_t part :
       {parameters, gradients, optimizer, activations, logits, unsharded, communication, other}) {
    total = part > kMost - total ? kMost : total + part;
  }
  return total;
}

bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  if (config::batch_shape(plan, sizes.dp()).micro_batches == 1) return false;
  return defers_gradient_sync(plan.strategy);
}

RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const layout::Layout& layout, int64_t rank, Routing routing) {
  ActivationContext context = activation_context(plan, layout);
  context.skewed = routing == Routing::kSkewed;
  const int64_t position = layout.mesh.index(rank, "pp");
  WalkedRank who{.rank = rank,
                 .stage = position,
                 .in_layout = rank,
                 .has_head = position == layout.stage_owners.back()};
  const auto lists =
      layout::executed_lists(layout::pipeline_shape(plan.pipeline, layout.mesh.sizes().pp));
  if (lists) who.list = &lists->at(static_cast<size_t>(position));
  who.owners = layout.stage_owners;
  return walk_step(plan, config, layout, context,
                   measure_units(plan, config, layout, rank, context), who);
}

RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, const ActivationContext& context, StepUnits step,
                     const WalkedRank& who) {
  if (who.list != nullptr) {
    return walk_pipeline(plan, config, layout, context, std::move(step), who);
  }
  return Walk(plan, config, layout, context, std::move(step), who).run();
}

std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const layout::Layout& layout) {
  std::vector<RankMemory> worst;
  for (int64_t pp = 0; pp < layout.mesh.sizes().pp; ++pp) {
    worst.push_back(estimate_memory(plan, config, layout, layout.mesh.rank({pp, 0, 0, 0, 0})));
  }
  return worst;
}

}  // namespace am::predict
