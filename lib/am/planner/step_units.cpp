#include "am/planner/step_units.h"

#include <algorithm>
#include <utility>

#include "am/planner/buckets.h"
#include "am/planner/dtype_size.h"
#include "am/planner/memory.h"
#include "am/planner/precision.h"
#include "am/planner/units.h"

namespace am::planner {
namespace {

class Measure {
 public:
  Measure(const config::Plan& plan, const model::ModelConfig& config, const Layout& layout,
          int64_t rank, const ActivationContext& context)
      : plan_(plan),
        config_(config),
        layout_(layout),
        rank_(rank),
        stage_(layout.mesh.index(rank, "pp")),
        ep_(layout.mesh.index(rank, "ep")),
        context_(context) {
    const StepPrecision precision = resolve_precision(plan);
    storage_ = static_cast<double>(dtype_size(precision.storage));
    compute_ = static_cast<double>(dtype_size(precision.compute));
    reduce_ = static_cast<double>(dtype_size(precision.reduce));
    post_forward_ = post_forward_size(plan.strategy, layout.mesh.sizes());
    offloaded_ = offloads_to_host(plan.strategy);
    adds_reductions_ =
        micro_batches(plan, layout.mesh.sizes()) > 1 && !defers_gradient_sync(plan.strategy);
  }

  StepUnits run() {
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (is_mine(parameter)) out_.stored_numel += parameter.stored_numel(layout_.mesh, rank_);
    }
    list_units();
    if (reuses_buffers(plan_.strategy)) pool_layers();
    if (!gradient_buckets(plan_, layout_).empty()) join_units();
    return std::move(out_);
  }

 private:
  // Layout::holds for this rank, asked for every parameter.
  bool is_mine(const ParameterLayout& parameter) const {
    return layout_.stage_owners[static_cast<size_t>(parameter.stage)] == stage_ &&
           (!parameter.ep_owner.has_value() || *parameter.ep_owner == ep_);
  }

  UnitBytes measure(const model::Unit& unit, bool reshards) const {
    UnitBytes bytes;
    bytes.name = unit.name.empty() ? "the root" : unit.name;
    bytes.layer = unit.layer;
    bytes.reshards = reshards;
    double numel_full = 0;
    double numel_largest = 0;
    double numel_stored = 0;
    double numel_padded = 0;  // gathered, with the padding of each piece
    bool fsdp = false;
    for (const int index : unit.parameters) {
      const ParameterLayout& parameter = layout_.parameters[static_cast<size_t>(index)];
      if (!is_mine(parameter)) continue;
      const auto whole = static_cast<double>(numel(parameter.tp_shape(layout_.mesh, rank_)));
      numel_full += whole;
      numel_largest = std::max(numel_largest, whole);
      const auto stored = static_cast<double>(parameter.stored_numel(layout_.mesh, rank_));
      const int64_t pieces = parameter.fsdp ? layout_.mesh.group_size(parameter.shard_group) : 1;
      numel_stored += stored;
      numel_padded += stored * static_cast<double>(pieces);
      fsdp = fsdp || parameter.fsdp;
    }
    // Without shards and casts the parameters that are stored are the ones that compute.
    if (fsdp || storage_ != compute_ || offloaded_) bytes.full = numel_full * compute_;
    if (fsdp) {
      bytes.gather_buffer = numel_padded * compute_;
      if (storage_ != compute_ || offloaded_) bytes.gather_buffer += numel_stored * compute_;
      if (reshards && post_forward_ > 0) {
        bytes.kept = numel_padded * compute_ / static_cast<double>(post_forward_);
      }
    }
    bytes.gradient = numel_largest * compute_;
    // The reduction ends in the stored gradient where it can: without shards it is all in there.
    const bool direct = storage_ == reduce_ && !offloaded_ && !adds_reductions_;
    if (fsdp || !direct) bytes.reduce_buffer = numel_padded * reduce_;
    if (fsdp && !direct) bytes.reduced = numel_stored * reduce_;
    return bytes;
  }

  void list_units() {
    const std::vector<bool> reshard = reshard_after_forward(plan_.strategy, layout_.units);
    // Forward order: the root's norm comes before the head.
    std::vector<size_t> order;
    for (size_t i = 0; i < layout_.units.size(); ++i) order.push_back(i);
    const size_t count = order.size();
    if (count >= 2 && layout_.units[count - 2].name == "lm_head")
      std::swap(order[count - 2], order[count - 1]);
    for (const size_t i : order) {
      UnitBytes unit = measure(layout_.units[i], reshard[i]);
      if (unit.gradient == 0) continue;  // of another pipeline stage
      add_activations(layout_.units[i], unit);
      unit.activations *= static_cast<double>(in_flight(layout_.units[i]));
      out_.units.push_back(std::move(unit));
    }
    if (config_.tie_word_embeddings && layout_.mesh.sizes().pp == 1) {
      // The embedding's unit is gathered again for the head, and freed after it.
      UnitBytes head = measure(layout_.units.front(), reshard.front());
      head.name = "the tied head";
      head.waits_for_end = true;
      if (!head.reshards) head.full = head.gather_buffer = 0;  // it never went away
      head.kept = 0;
      out_.units.push_back(std::move(head));
    }
  }

  // Buckets are gathered before the first unit, and their messages live until backward is over.
  void join_units() {
    UnitBytes all;
    for (UnitBytes& unit : out_.units) {
      all.full += unit.full;
      all.gather_buffer += unit.gather_buffer;
      if (!unit.waits_for_end) all.reduce_buffer += unit.reduce_buffer;
      if (!unit.waits_for_end) all.reduced += unit.reduced;
      unit.full = unit.gather_buffer = unit.reduce_buffer = unit.reduced = 0;
    }
    out_.units.front().full = all.full;
    out_.units.front().gather_buffer = all.gather_buffer;
    out_.units.front().reduced = all.reduced;
    out_.bucket_buffers = all.reduce_buffer;
  }

  // The layers' buffers are there all the time: one unit's full tensors and its gather, and two
  // units' gradients, one on its way and one being made.
  void pool_layers() {
    UnitBytes most;
    for (UnitBytes& unit : out_.units) {
      if (unit.layer < 0) continue;
      most.full = std::max(most.full, unit.full);
      most.gather_buffer = std::max(most.gather_buffer, unit.gather_buffer);
      most.reduce_buffer = std::max(most.reduce_buffer, unit.reduce_buffer);
      unit.full = unit.gather_buffer = unit.reduce_buffer = 0;
    }
    out_.pooled_parameters = most.full;
    out_.pooled_messages = most.gather_buffer + 2 * most.reduce_buffer;
  }

  // Micro-batches whose activations of this unit live at once: as many as its stage has under way
  // when the rank's schedule has most.
  int64_t in_flight(const model::Unit& unit) const {
    int64_t most = 1;
    for (const int index : unit.parameters) {
      const ParameterLayout& parameter = layout_.parameters[static_cast<size_t>(index)];
      if (!is_mine(parameter)) continue;
      most = std::max(most, layout_.in_flight[static_cast<size_t>(parameter.stage)]);
    }
    return most;
  }

  void add_activations(const model::Unit& unit, UnitBytes& bytes) const {
    if (unit.layer >= 0) {
      bytes.activations = layer_activations(context_, config_, layout_, rank_, unit);
      bytes.recomputed = recomputed_activations(context_, config_, layout_, rank_, unit);
      bytes.backward = layer_backward(context_, config_, layout_, rank_, unit);
    } else if (unit.name == layout_.inventory.names.embedding) {
      bytes.activations = embedding_activations(context_);
      bytes.looked_up = true;
    } else if (unit.name.empty()) {
      bytes.activations = final_norm_activations(context_, config_);
    }
  }

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const Layout& layout_;
  int64_t rank_;
  int64_t stage_;  // index along pp
  int64_t ep_;     // index along ep
  const ActivationContext& context_;
  double storage_ = 4;
  double compute_ = 4;
  double reduce_ = 4;
  int64_t post_forward_ = 0;      // see post_forward_size
  bool offloaded_ = false;        // see offloads_to_host
  bool adds_reductions_ = false;  // each micro-batch's gradients are reduced, and added up
  StepUnits out_;
};

}  // namespace

StepUnits measure_units(const config::Plan& plan, const model::ModelConfig& config,
                        const Layout& layout, int64_t rank, const ActivationContext& context) {
  return Measure(plan, config, layout, rank, context).run();
}

}  // namespace am::planner
