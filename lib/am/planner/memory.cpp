#include "am/planner/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/planner/activations.h"
#include "am/planner/precision.h"
#include "am/planner/step_units.h"
#include "am/planner/units.h"

namespace am::planner {
namespace {

// Formulas run in double and end as integers. Absurd plans saturate instead of overflowing.
int64_t to_bytes(double bytes) {
  return std::llround(std::min(bytes, static_cast<double>(kMostBytes)));
}

class Walk {
 public:
  Walk(const config::Plan& plan, const model::ModelConfig& config, const Layout& layout,
       const ActivationContext& context, StepUnits step, const WalkedRank& who)
      : plan_(plan),
        config_(config),
        layout_(layout),
        context_(context),
        step_(std::move(step)),
        units_(step_.units) {
    peak_.rank = who.rank;
    peak_.stage = who.stage;
    if (who.has_head) vocabulary_ = head_rows(who.in_layout);
  }

  RankMemory run() {
    fill_states();
    now_.unsharded = step_.pooled_parameters + step_.ignored;
    now_.communication = step_.pooled_messages;
    forward();
    backward();
    update();
    return std::move(peak_);
  }

 private:
  // Parameters, and for those that train their gradients and the optimizer's state, are flat
  // tensors of one layout and dtype; one step count serves all of them.
  void fill_states() {
    const StepPrecision precision = resolve_precision(plan_);
    const int64_t stored = step_.stored_numel;
    const int64_t element = dtype_size(precision.storage);
    const int64_t trained = step_.trained_numel;
    base_.parameters = stored * element;
    base_.gradients = trained * element;
    base_.optimizer = step_.state_numel * element;
    if (offloads_to_host(plan_.strategy)) {
      base_.host_parameters = stored * element;
      base_.host = base_.host_parameters + base_.gradients + base_.optimizer;
      base_.parameters = base_.gradients = base_.optimizer = 0;
    }
    const double table = 2.0 * context_.sequence * static_cast<double>(config_.head_dim);
    base_.other = to_bytes(table * static_cast<double>(dtype_size(precision.compute)));
  }

  // The slice of the vocabulary that a rank of the last stage has.
  double head_rows(int64_t rank) const {
    const model::ModuleNames& names = layout_.inventory.names;
    const std::string weight =
        cat(config_.tie_word_embeddings ? names.embedding : names.head, ".weight");
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (parameter.name != weight) continue;
      return static_cast<double>(parameter.tp_shape(layout_.mesh, rank)[0]);
    }
    return 0.0;
  }

  struct Moment {
    double activations = 0;
    double logits = 0;
    double unsharded = 0;
    double communication = 0;
  };

  // Named `what` + `of` + `how`.
  void record_moment(std::string_view what, std::string_view of, std::string_view how,
                     const Moment& moment) {
    MemoryComponents now = base_;
    now.activations = to_bytes(moment.activations);
    now.logits = to_bytes(moment.logits);
    now.unsharded = to_bytes(moment.unsharded);
    now.communication = to_bytes(moment.communication);
    if (now.total() <= peak_.components.total()) return;
    peak_.components = now;
    peak_.moment = cat(what, of, how);
  }

  // Gathers that are under way for units [from, from + count), or those before them where count is
  // negative. A unit that is whole already is not gathered.
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
    const int64_t depth = prefetch_depths(plan_.strategy).forward;
    if (accumulates()) {
      now_.communication += step_.bucket_buffers;
      for (const UnitBytes& unit : units_) {
        if (!unit.waits_for_end) now_.communication += unit.reduce_buffer;
      }
    }
    for (size_t i = 0; i < units_.size(); ++i) {
      const UnitBytes& unit = units_[i];
      now_.unsharded += unit.full;
      Moment gathering = now_;
      gathering.communication +=
          unit.gather_buffer + gathering_ahead(i + 1, std::max<int64_t>(0, depth - 1), false);
      record_moment("forward of ", unit.name, ", gathering", gathering);
      Moment computing = now_;
      computing.activations += unit.activations;
      // Without a graph each tensor goes when the next one is there.
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

  // From the last unit to the first.
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
  }

  void gather_again(const UnitBytes& unit) {
    if (!unit.reshards || unit.looked_up) return;
    now_.unsharded += unit.full;
    Moment gathering = now_;
    gathering.communication += unit.gather_buffer + reducing_;
    record_moment("backward of ", unit.name, ", gathering", gathering);
  }

  // Its first moment, with what is computed again, and its last one, with the gradients.
  void compute_gradients(size_t i) {
    const UnitBytes& unit = units_[i];
    const bool is_head = unit.layer < 0 && i + 1 == units_.size();  // no stage but the last one
    const BackwardBytes gradients =
        is_head ? head_backward(context_, config_, vocabulary_, step_.head_trains) : unit.backward;
    const int64_t depth = prefetch_depths(plan_.strategy).backward;
    const bool reduces_now = !unit.waits_for_end && !accumulates();
    const double buffer = reduces_now ? unit.reduce_buffer : 0.0;
    Moment computing = now_;
    computing.activations += unit.recomputed + gradients.first;
    computing.communication += reducing_ + (i == 0 ? 0.0 : gathering_ahead(i - 1, -depth, true));
    Moment first = computing;
    if (gradients.packed_first) {
      first.communication += buffer;
    } else {
      first.unsharded += unit.gradient;
    }
    record_moment("backward of ", unit.name, "", first);
    if (unit.fills_buckets && reduces_now && !has_buckets_) {
      has_buckets_ = true;
      now_.communication += step_.bucket_buffers;
      computing.communication += step_.bucket_buffers;
    }
    computing.logits = 0;  // the head's node is done
    computing.unsharded += unit.gradient;
    computing.communication += buffer;
    computing.activations += gradients.later - gradients.first;
    record_moment("backward of ", unit.name, "", computing);
    if (gradients.attention == 0.0) return;
    computing.unsharded -= unit.gradient;
    computing.activations += gradients.attention - gradients.later;
    record_moment("backward of ", unit.name, ", attention", computing);
  }

  // AdamW and its like update in place, and what Muon needs is there for one unit at a time.
  // Validation has no moment of its own: it is the forward of a training step without what backward
  // would need, while states and gradients are as they are in training.
  void update() {
    Moment idle;
    idle.unsharded = step_.pooled_parameters + step_.ignored;
    idle.communication = step_.pooled_messages;
    for (const UnitBytes& unit : units_) {
      if (unit.orthogonalizing == 0.0) continue;
      Moment updating = idle;
      updating.communication += unit.orthogonalizing;
      record_moment("update of ", unit.name, "", updating);
    }
  }

  // The unit's reduction begins, and its parameters are freed. The reduction is in flight while the
  // unit before it computes.
  void reduce_gradients(const UnitBytes& unit) {
    if (unit.waits_for_end) {  // in autograd, for the embedding's gradient
      now_.unsharded += unit.gradient;
      return;
    }
    if (!overlaps_reduction(plan_.strategy)) {  // everything stays until backward is over
      if (!accumulates()) now_.communication += unit.reduce_buffer;
      return;
    }
    if (!unit.looked_up || !unit.reshards) now_.unsharded -= unit.full;
    now_.unsharded -= unit.kept;
    // The reduction before this one ends as this one begins.
    Moment reducing = now_;
    reducing.communication += reducing_ + unit.reduced;
    if (!accumulates()) reducing.communication += unit.reduce_buffer;
    record_moment("backward of ", unit.name, ", reducing", reducing);
    if (accumulates()) now_.communication -= unit.reduce_buffer;
    reducing_ = unit.pending();
  }

  bool accumulates() const { return keeps_whole_gradients(plan_, layout_.mesh.sizes()); }

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const Layout& layout_;
  ActivationContext context_;
  double vocabulary_ = 0.0;  // this rank's slice at the head; 0 on stages without it
  StepUnits step_;
  const std::vector<UnitBytes>& units_;
  MemoryComponents base_;  // states, the same all through the step
  // What is alive between two units: gathered parameters that were not freed, what is saved for
  // units whose backward has not run yet, messages that wait for the end. While a unit runs, what
  // it needs itself comes on top of it.
  Moment now_;
  double reducing_ = 0;       // the messages of the reduction that is in flight in backward
  bool has_buckets_ = false;  // the buckets' messages are there
  RankMemory peak_;
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
                           const Layout& layout, int64_t rank, Routing routing) {
  ActivationContext context = activation_context(plan, layout);
  context.skewed = routing == Routing::kSkewed;
  const int64_t stage = layout.mesh.index(rank, "pp");
  return walk_step(plan, config, layout, context,
                   measure_units(plan, config, layout, rank, context),
                   {.rank = rank,
                    .stage = stage,
                    .in_layout = rank,
                    .has_head = stage == layout.stage_owners.back()});
}

RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const Layout& layout, const ActivationContext& context, StepUnits step,
                     const WalkedRank& who) {
  return Walk(plan, config, layout, context, std::move(step), who).run();
}

std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const Layout& layout) {
  std::vector<RankMemory> worst;
  for (int64_t pp = 0; pp < layout.mesh.sizes().pp; ++pp) {
    worst.push_back(estimate_memory(plan, config, layout, layout.mesh.rank({pp, 0, 0, 0, 0})));
  }
  return worst;
}

}  // namespace am::planner
