#include "am/predict/memory/memory_moments.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"
#include "am/layout/precision.h"
#include "am/layout/replicas.h"
#include "am/layout/units.h"
#include "am/model/gpu_operators.h"
#include "am/run_folder/shard_index.h"
#include "am/run_folder/writers.h"

namespace am::predict {
namespace {

// Rounds the result of a formula to whole bytes. Results of absurdly large plans become kMostBytes
// instead of overflowing int64_t.
int64_t to_bytes(double bytes) {
  return std::llround(std::min(bytes, static_cast<double>(kMostBytes)));
}

struct CopiedBox {
  Shape shape;
  int64_t replica = 0;
};

// Bytes of the copy of a rank's part of a checkpoint, which is written while training continues
// (checkpoint.async) and exists for the whole job: the rank's data file, with boxes of parameters
// and optimizer state, replicated boxes divided among their holders, and the archive format's
// overhead. Excludes the optimizer's global values in rank 0's file.
int64_t staging_bytes(const config::Plan& plan, const layout::Layout& layout, int64_t rank) {
  const std::string& dtype = layout::resolve_precision(plan).storage;
  const auto element = static_cast<int64_t>(layout::dtype_size(dtype));
  const layout::ReplicaAxes in_units = layout::replica_axes(layout, /*ignored=*/false);
  const layout::ReplicaAxes in_none = layout::replica_axes(layout, /*ignored=*/true);
  std::vector<CopiedBox> all;
  std::vector<run_folder::HeldBox> held;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    if (!layout.holds(rank, parameter)) continue;
    const layout::ReplicaAxes& axes = parameter.ignored ? in_none : in_units;
    const std::string_view axis = parameter.expert_parallel() ? axes.experts : axes.dense;
    const int64_t ranks = axis.empty() ? 1 : layout.mesh.group_size(axis);
    const int64_t index = axis.empty() ? 0 : layout.mesh.index(rank, axis);
    const size_t tensors =
        1 + (parameter.trainable
                 ? config::state_names(plan.optimizer, parameter.orthogonalized).size()
                 : 0);
    for (const layout::LocalShard& part : parameter.parts(layout.mesh, rank)) {
      if (part.box.numel() == 0) continue;
      const run_folder::HeldBox box = {part.box.numel() * element, ranks * part.copies,
                                       cat(axis, " x ", part.copies)};
      for (size_t i = 0; i < tensors; ++i) {
        all.push_back({part.box.shape, index * part.copies + part.copy});
        held.push_back(box);
      }
    }
  }
  const std::vector<int64_t> writers = run_folder::choose_writers(held);
  // The save's id has 16 digits (base/host.h).
  uint64_t bytes = run_folder::data_file_label(std::string(16, '0'), rank).size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (writers[i] != all[i].replica) continue;
    bytes = formats::place_slice(dtype, all[i].shape, bytes).end;
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

MemoryMoments::MemoryMoments(const config::Plan& plan, const model::ModelConfig& config,
                             const layout::Layout& layout, const ActivationContext& context,
                             StepUnits step, const WalkedRank& who)
    : plan_(plan),
      config_(config),
      layout_(layout),
      context_(context),
      step_(std::move(step)),
      units_(step_.units) {
  peak_.rank = who.rank;
  peak_.stage = who.stage;
  if (who.has_head) vocabulary_ = head_rows(who.in_layout);
  fill_states();
  now_.unsharded = step_.pooled_parameters + step_.ignored;
  now_.communication = step_.pooled_messages;
}

// Sets base_. Parameters and optimizer states are flat tensors of one dtype, so their bytes follow
// from numbers of elements. Gradients are not in base_: they are live only from their reduction
// until the next step (param_group/gradient_reducer.h).
void MemoryMoments::fill_states() {
  const layout::StepPrecision precision = layout::resolve_precision(plan_);
  const int64_t stored = step_.stored_numel;
  const int64_t element = layout::dtype_size(precision.storage);
  const int64_t trained = step_.trained_numel;
  base_.parameters = stored * element;
  base_.optimizer = step_.state_numel * element;
  if (layout::offloads_to_host(plan_.strategy)) {
    base_.host_parameters = stored * element;
    base_.host = base_.host_parameters + trained * element + base_.optimizer;
    base_.parameters = base_.optimizer = 0;
  }
  const double table = 2.0 * context_.sequence * static_cast<double>(config_.head_dim);
  base_.other = to_bytes(table * static_cast<double>(layout::dtype_size(precision.compute)) *
                         static_cast<double>(step_.stages));
  if (!context_.on_host) base_.other += model::kProductWorkspace;
  if (plan_.checkpoint.async) {
    (context_.on_host ? base_.other : base_.host) += staging_bytes(plan_, layout_, peak_.rank);
  }
}

// Returns the size of the rank's slice of the vocabulary at the head.
double MemoryMoments::head_rows(int64_t rank) const {
  const size_t weight = layout_.inventory.weight_of(model::Role::kHead);
  return static_cast<double>(layout_.parameters[weight].tp_shape(layout_.mesh, rank)[0]);
}

void MemoryMoments::record_full(std::string_view what, std::string_view of, std::string_view how,
                                const MemorySnapshot& moment) {
  MemoryComponents now = base_;
  now.gradients = to_bytes(moment.gradients);
  now.activations = to_bytes(moment.activations);
  now.logits = to_bytes(moment.logits);
  now.unsharded = to_bytes(moment.unsharded);
  now.communication = to_bytes(moment.communication);
  if (now.total() <= peak_.components.total()) return;
  peak_.components = now;
  fullest_ = moment;
  what_ = what;
  of_ = of;
  how_ = how;
}

void MemoryMoments::begin_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                                   MemorySnapshot& computing) {
  computing.activations += unit.recomputed + gradients.rows_arrive;
  if (gradients.rows_arrive > 0.0) {
    record_moment("backward of ", unit.name, ", rows to experts", computing);
  }
  computing.activations += gradients.first - gradients.rows_arrive;
}

void MemoryMoments::record_first(const UnitBytes& unit, const BackwardBytes& gradients,
                                 MemorySnapshot computing, double gradient, double stored,
                                 double buffer) {
  if (gradients.packed_first) {
    computing.gradients += stored;
    computing.communication += buffer;
  } else {
    computing.unsharded += gradient;
  }
  record_moment("backward of ", unit.name, "", computing);
}

void MemoryMoments::end_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                                 MemorySnapshot computing) {
  if (gradients.rows_return > 0.0) {
    MemorySnapshot returning = computing;
    returning.activations += gradients.rows_return - gradients.later;
    record_moment("backward of ", unit.name, ", rows from experts", returning);
  }
  if (gradients.attention == 0.0) return;
  computing.activations += gradients.attention - gradients.later;
  record_moment("backward of ", unit.name, ", attention", computing);
}

RankMemory MemoryMoments::peak() const {
  RankMemory peak = peak_;
  peak.moment = cat(what_, of_, how_);
  return peak;
}

BackwardBytes MemoryMoments::gradients_of(const UnitBytes& unit, bool is_last) const {
  const bool is_head = unit.layer < 0 && is_last && vocabulary_ > 0.0;
  return is_head ? head_backward(context_, config_, vocabulary_, step_.head_trains) : unit.backward;
}

void MemoryMoments::update() {
  MemorySnapshot idle;
  idle.unsharded = step_.pooled_parameters + step_.ignored;
  idle.communication = step_.pooled_messages;
  for (const UnitBytes& unit : units_) idle.gradients += unit.gradients();
  record_moment("the optimizer's update", "", "", idle);
  for (const UnitBytes& unit : units_) {
    if (unit.orthogonalizing == 0.0) continue;
    MemorySnapshot updating = idle;
    updating.communication += unit.orthogonalizing;
    record_moment("update of ", unit.name, "", updating);
  }
}

}  // namespace am::predict
