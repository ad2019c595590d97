#include "am/predict/memory/step_units.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/config/optimizer.h"
#include "am/layout/buckets.h"
#include "am/layout/precision.h"
#include "am/layout/quantization.h"
#include "am/layout/units.h"
#include "am/predict/memory/layer_activations.h"

namespace am::predict {
namespace {

class Measure {
 public:
  Measure(const config::Plan& plan, const model::ModelConfig& config, const layout::Layout& layout,
          int64_t rank, const ActivationContext& context)
      : plan_(plan),
        config_(config),
        layout_(layout),
        rank_(rank),
        stage_(layout.mesh.index(rank, "pp")),
        ep_(layout.mesh.index(rank, "ep")),
        context_(context) {
    const layout::StepPrecision precision = layout::resolve_precision(plan);
    storage_ = static_cast<double>(layout::dtype_size(precision.storage));
    compute_ = static_cast<double>(layout::dtype_size(precision.compute));
    reduce_ = static_cast<double>(layout::dtype_size(precision.reduce));
    post_forward_ = layout::post_forward_size(plan.strategy, layout.mesh.sizes());
    offloaded_ = layout::offloads_to_host(plan.strategy);
    adds_reductions_ = config::batch_shape(plan, layout.mesh.sizes().dp()).micro_batches > 1 &&
                       !defers_gradient_sync(plan.strategy);
  }

  StepUnits run() {
    held_.reserve(layout_.parameters.size());
    for (const layout::ParameterLayout& parameter : layout_.parameters) {
      Held& held = held_.emplace_back();
      const int64_t copies = layout_.copies_at(stage_, ep_, parameter);
      if (copies == 0) continue;
      const int64_t stored = parameter.stored_numel(layout_.mesh, rank_);
      held = {true, static_cast<double>(numel(parameter.tp_shape(layout_.mesh, rank_))),
              static_cast<double>(stored)};
      out_.stored_numel += copies * stored;
      if (parameter.quantized) out_.quantized_numel += copies * stored;
      if (parameter.trainable) out_.trained_numel += copies * stored;
      out_.state_numel += copies * stored * states_of(parameter);
    }
    unit_of_.resize(held_.size());
    out_.stages = std::max<int64_t>(
        1, std::count(layout_.stage_owners.begin(), layout_.stage_owners.end(), stage_));
    out_.head_trains = head_trains();
    list_units();
    add_ignored();
    if (layout::reuses_buffers(plan_.strategy)) pool_layers();
    const std::vector<std::vector<int>> buckets = layout::gradient_buckets(plan_, layout_);
    if (!buckets.empty()) join_units();
    for (const std::vector<int>& bucket : buckets) join_gradients(bucket);
    return std::move(out_);
  }

 private:
  bool owns(int stage) const { return layout_.stage_owners[static_cast<size_t>(stage)] == stage_; }

  // Returns the number of optimizer state tensors of the parameter's size.
  int64_t states_of(const layout::ParameterLayout& parameter) const {
    if (!parameter.trainable) return 0;
    return static_cast<int64_t>(
        config::state_names(plan_.optimizer, parameter.orthogonalized).size());
  }

  // Returns the number of elements that Muon's iteration needs for one matrix: two copies of the
  // matrix and two square products, as wide as its shorter side. If tp shards the columns, the
  // matrix is first gathered from the tp ranks. The result is the maximum of the elements of this
  // gather and of the iteration.
  double iterated_numel(const layout::ParameterLayout& parameter) const {
    const auto all = static_cast<double>(numel(parameter.shape));
    const auto least = static_cast<double>(std::min(parameter.shape[0], parameter.shape[1]));
    const double part =
        parameter.tp_dim == 1 ? all / static_cast<double>(layout_.mesh.sizes().tp) : 0.0;
    return 2 * std::max(all + least * least, part > 0.0 ? all + part : 0.0);
  }

  // Returns the peak bytes of Muon's update of these parameters (optim/muon.cpp). The ranks that
  // hold pieces of a unit's matrices gather all pieces. Each rank then iterates on some of the
  // complete matrices. All buffers are bfloat16, except for the result of Muon::direction() for one
  // piece, which has the stored parameters' dtype.
  double orthogonalizing(const std::vector<int>& indices) const {
    constexpr double kElement = 2;
    double pieces = 0;
    double largest_piece = 0;
    double iterating = 0;
    double ranks = 1;
    for (const int index : indices) {
      const layout::ParameterLayout& parameter = layout_.parameters[static_cast<size_t>(index)];
      const Held& held = held_[static_cast<size_t>(index)];
      if (!held.mine || !parameter.orthogonalized) continue;
      iterating = std::max(iterating, kElement * iterated_numel(parameter));
      pieces += held.stored;
      largest_piece = std::max(largest_piece, held.stored);
      if (parameter.fsdp) {
        ranks = static_cast<double>(layout_.mesh.group_size(parameter.shard_group));
      }
    }
    if (ranks == 1) return std::max((storage_ + kElement) * largest_piece, iterating);
    const double sent = kElement * pieces;
    return sent + std::max(storage_ * largest_piece, ranks * sent + iterating);
  }

  // Numbers of elements of one parameter on this rank.
  struct Held {
    bool mine = false;  // the rank holds the parameter, or a shard of it
    double whole = 0;   // elements before data parallelism shards the parameter
    double stored = 0;  // elements that the rank stores
  };

  // Numbers of elements of several parameters on this rank.
  struct Elements {
    double full = 0;       // sum of Held::whole
    double largest = 0;    // maximum of Held::whole
    double stored = 0;     // sum of Held::stored
    double padded = 0;     // elements after gathering, including the padding of each shard
    bool sharded = false;  // data parallelism shards one of the parameters
  };
  Elements elements_of(const std::vector<int>& indices, bool trainable_alone) const {
    Elements all;
    for (const int index : indices) {
      const layout::ParameterLayout& parameter = layout_.parameters[static_cast<size_t>(index)];
      const Held& held = held_[static_cast<size_t>(index)];
      if (!held.mine || (trainable_alone && !parameter.trainable)) continue;
      all.full += held.whole;
      all.largest = std::max(all.largest, held.whole);
      const int64_t pieces = parameter.fsdp ? layout_.mesh.group_size(parameter.shard_group) : 1;
      all.stored += held.stored;
      all.padded += held.stored * static_cast<double>(pieces);
      all.sharded = all.sharded || parameter.fsdp;
    }
    return all;
  }

  UnitBytes measure(const std::vector<int>& indices, bool reshards) const {
    std::vector<UnitBytes> parts;
    for (const layout::GatheredPart& part : layout::gathered_parts(layout_, indices, rank_)) {
      parts.push_back(measure_together(part, reshards));
    }
    UnitBytes bytes = parts.back();
    for (size_t i = parts.size() - 1; i-- > 0;) {
      const UnitBytes& earlier = parts[i];
      bytes.gathering =
          std::max(earlier.gathering + bytes.gather_buffer - bytes.full, bytes.gathering);
      for (const auto part : {&UnitBytes::full, &UnitBytes::gather_buffer, &UnitBytes::kept,
                              &UnitBytes::reduce_buffer, &UnitBytes::reduced,
                              &UnitBytes::packed_gradients, &UnitBytes::reduced_gradients}) {
        bytes.*part += earlier.*part;
      }
    }
    return bytes;
  }

  // Returns the sizes of quantized parameters. Each rank gathers the NF4 bytes and then dequantizes
  // them.
  UnitBytes measure_quantized(const Elements& all, bool reshards, int64_t post_forward) const {
    constexpr double kEach = layout::kNf4Bytes;
    UnitBytes bytes;
    bytes.reshards = reshards;
    bytes.full = all.full * compute_;
    const auto scratch =
        static_cast<double>(layout::nf4_scratch(static_cast<int64_t>(all.largest)));
    if (!all.sharded && offloaded_) {
      // The NF4 bytes are copied from the host and dequantized before the parameters are used.
      bytes.gather_buffer = bytes.full;
      bytes.gathering = all.stored * kEach + scratch;
      return bytes;
    }
    if (all.sharded) bytes.gather_buffer = all.padded * kEach;
    if (offloaded_) bytes.gather_buffer += all.stored * kEach;
    if (all.sharded && reshards && post_forward > 0) {
      bytes.kept = all.padded * kEach / as_double(post_forward);
    }
    bytes.gathering = bytes.gather_buffer + scratch;
    return bytes;
  }

  // Returns the sizes of parameters that share one gather and one reduction.
  UnitBytes measure_together(const layout::GatheredPart& part, bool reshards) const {
    const int64_t post_forward = layout::post_forward_size(
        post_forward_, layout_.mesh.group_size(part.experts ? "ep_shard" : "dp_shard_cp"));
    const Elements all = elements_of(part.parameters, /*trainable_alone=*/false);
    if (part.quantized) return measure_quantized(all, reshards, post_forward);
    UnitBytes bytes;
    const Elements trained = elements_of(part.parameters, /*trainable_alone=*/true);
    bytes.reshards = reshards;
    // Without sharding, casts and offloading, the stored parameters are used for computation.
    if (all.sharded || storage_ != compute_ || offloaded_) bytes.full = all.full * compute_;
    if (all.sharded) {
      bytes.gather_buffer = all.padded * compute_;
      if (storage_ != compute_ || offloaded_) bytes.gather_buffer += all.stored * compute_;
      bytes.gathering = bytes.gather_buffer;
      if (reshards && post_forward > 0) {
        bytes.kept = all.padded * compute_ / static_cast<double>(post_forward);
      }
    } else if (offloaded_) {
      // Like a gather, a copy from the host runs before the parameters are used.
      bytes.gather_buffer = bytes.full;
    }
    // `direct`: the reduction writes to the stored gradient and needs no other tensor for its
    // output. Without sharding, a `direct` reduction needs no buffer for its input either.
    const bool direct = storage_ == reduce_ && !offloaded_ && !adds_reductions_;
    if (all.sharded || !direct) bytes.reduce_buffer = trained.padded * reduce_;
    if (all.sharded && !direct) bytes.reduced = trained.stored * reduce_;
    if (!offloaded_) {
      (bytes.reduce_buffer > 0 ? bytes.reduced_gradients : bytes.packed_gradients) =
          trained.stored * storage_;
    }
    return bytes;
  }

  UnitBytes measure(const model::Unit& unit, bool reshards) const {
    UnitBytes bytes = measure(layout_.gathered(unit), reshards);
    bytes.name = unit.kind == model::UnitKind::kRoot ? "the root" : unit.name;
    bytes.layer = unit.layer;
    for (const int index : unit.parameters) {
      const layout::ParameterLayout& parameter = layout_.parameters[static_cast<size_t>(index)];
      const auto stored = static_cast<int64_t>(held_[static_cast<size_t>(index)].stored);
      bytes.stored_numel += stored;
      if (parameter.quantized) bytes.quantized_numel += stored;
      if (parameter.trainable) bytes.trained_numel += stored;
      bytes.state_numel += stored * states_of(parameter);
    }
    const layout::Layout::ByRanks apart = layout_.by_ranks(unit.parameters, rank_);
    bytes.orthogonalizing = std::max(orthogonalizing(apart.dense), orthogonalizing(apart.experts));
    bytes.gradient = elements_of(unit.parameters, /*trainable_alone=*/true).largest * compute_;
    const UnitBytes ignored = measure(layout_.ignored_of(unit), /*reshards=*/false);
    bytes.packed_gradients += ignored.packed_gradients;
    bytes.reduced_gradients += ignored.reduced_gradients;
    bytes.fills_buckets = ignored.gradients() > 0 || ignored.reduce_buffer > 0;
    return bytes;
  }

  // Adds the parameters that FSDP ignores, which stay unsharded during the whole step.
  void add_ignored() {
    const UnitBytes ignored = measure(layout_.ignored(), /*reshards=*/false);
    out_.ignored = ignored.full;
    out_.bucket_buffers += ignored.reduce_buffer;
    join_gradients(layout_.ignored());
  }

  // Moves the stored gradients of a group of parameters to the unit whose backward allocates the
  // gradients of the whole group. A group is a bucket, or the parameters that FSDP ignores.
  // Gradients that are allocated when packed move to the group's last unit in forward order, whose
  // backward runs first. Gradients that are allocated when reduced move to the group's first unit.
  // Does nothing if a trained parameter of the group is in none of the rank's units.
  void join_gradients(const std::vector<int>& group) {
    std::vector<size_t> units;
    for (const int index : group) {
      const auto i = static_cast<size_t>(index);
      if (!held_[i].mine || !layout_.parameters[i].trainable) continue;
      if (!unit_of_[i]) return;
      units.push_back(*unit_of_[i]);
    }
    if (units.empty()) return;
    const auto ends = std::minmax_element(units.begin(), units.end());
    const size_t first = *ends.first, last = *ends.second;
    const auto feeds_forward = [&](size_t i) {
      return unit_of_[i] == last && layout_.inventory.parameters[i].role >= model::Role::kGate;
    };
    const auto feeding_forward = std::count_if(group.begin(), group.end(), [&](int index) {
      return feeds_forward(static_cast<size_t>(index));
    });
    const auto last_index = static_cast<size_t>(*std::max_element(group.begin(), group.end()));
    // Whether backward computes the group's first gradient between the gradients of two experts.
    bool is_inner = false;
    for (size_t i = last_index + 1; i < unit_of_.size(); ++i) {
      is_inner = is_inner || (feeds_forward(i) &&
                              layout_.inventory.parameters[i].role == model::Role::kExpertDown);
    }
    // A layer's backward begins with the feed-forward, during which all moments of BackwardBytes
    // except `attention` occur. A group whose first gradient is the last one of the feed-forward,
    // or is in attention, is allocated after these moments.
    UnitBytes& begun = out_.units[last];
    const bool is_later = begun.layer >= 0 && feeding_forward < 2;
    double& packed = is_later   ? begun.late_gradients
                     : is_inner ? begun.inner_gradients
                                : begun.packed_gradients;
    for (const int index : group) {
      const auto i = static_cast<size_t>(index);
      if (!held_[i].mine || !layout_.parameters[i].trainable) continue;
      const UnitBytes alone = measure({index}, /*reshards=*/false);
      UnitBytes& unit = out_.units[*unit_of_[i]];
      unit.packed_gradients -= alone.packed_gradients;
      unit.reduced_gradients -= alone.reduced_gradients;
      packed += alone.packed_gradients;
      out_.units[first].reduced_gradients += alone.reduced_gradients;
    }
  }

  void list_units() {
    // Reads pp from the plan, because the layout may be a sample (build_sample_layout), whose mesh
    // has only one pipeline stage.
    const std::vector<bool> reshard =
        layout::reshard_after_forward(plan_.strategy, layout_.units, plan_.mesh.pp_size);
    // Sorts the units in forward order: the final norm, which is in the root's unit, runs before
    // the head.
    std::vector<size_t> order;
    for (size_t i = 0; i < layout_.units.size(); ++i) order.push_back(i);
    const size_t count = order.size();
    if (count >= 2 && layout_.units[count - 2].kind == model::UnitKind::kHead) {
      std::swap(order[count - 2], order[count - 1]);
    }
    bool trains = false;  // an earlier unit, on any stage, has trained parameters
    for (const size_t i : order) {
      const bool first_trained = !std::exchange(trains, trains || has_trainable(layout_.units[i]));
      if (!is_here(layout_.units[i])) continue;
      UnitBytes unit = measure(layout_.units[i], reshard[i]);
      unit.backward_runs = trains;
      unit.stage =
          layout_.parameters[static_cast<size_t>(layout_.units[i].parameters.front())].stage;
      add_activations(layout_.units[i], first_trained, unit);
      for (const int index : layout_.units[i].parameters) {
        unit_of_[static_cast<size_t>(index)] = out_.units.size();
      }
      out_.units.push_back(std::move(unit));
    }
    if (!config_.tie_word_embeddings) return;
    const size_t table = layout_.inventory.weight_of(model::Role::kHead);
    if (layout_.parameters[table].tied_stage) {
      if (owns(*layout_.parameters[table].tied_stage)) add_tied_copy(table, reshard.front());
    } else {
      // The head reads the embedding's unit, which is gathered again before the head runs and freed
      // afterwards.
      UnitBytes head = measure(layout_.units.front(), reshard.front());
      head.name = "the tied head";
      head.stored_numel = head.quantized_numel = head.trained_numel = head.state_numel = 0;
      head.packed_gradients = head.reduced_gradients = head.reduce_buffer = head.reduced = 0;
      head.fills_buckets = false;
      head.waits_for_end = true;
      // If the embedding's unit was not freed after its forward, the head needs no gather.
      if (!head.reshards) head.full = head.gather_buffer = head.gathering = 0;
      head.kept = 0;
      head.backward_runs = trains;
      out_.units.push_back(std::move(head));
    }
  }

  // Adds a unit for the last stage's copy of the embedding's weight, which the tied head reads.
  void add_tied_copy(size_t table, bool reshards) {
    model::Unit head{.kind = model::UnitKind::kHead,
                     .name = "the tied head",
                     .parameters = {static_cast<int>(table)}};
    UnitBytes unit = measure(head, reshards);
    unit.stage = *layout_.parameters[table].tied_stage;
    add_activations(head, /*first_trained=*/false, unit);
    if (!unit_of_[table]) unit_of_[table] = out_.units.size();
    out_.units.push_back(std::move(unit));
  }

  bool is_here(const model::Unit& unit) const {
    return std::any_of(unit.parameters.begin(), unit.parameters.end(), [this](int index) {
      const auto i = static_cast<size_t>(index);
      return held_[i].mine && owns(layout_.parameters[i].stage);
    });
  }

  bool head_trains() const {
    return layout_.parameters[layout_.inventory.weight_of(model::Role::kHead)].trainable;
  }

  // Returns the number of elements per token that the head's trained adapter keeps: the adapter's
  // LoRA rank, and with DoRA the logits before the magnitudes scale them. 0: the head has no
  // trained adapter.
  double head_adapter_width() const {
    double width = 0.0;
    for (size_t i = 0; i < layout_.parameters.size(); ++i) {
      const model::ParameterSpec& spec = layout_.inventory.parameters[i];
      const bool kept =
          spec.adapter == model::AdapterPart::kA || spec.adapter == model::AdapterPart::kMagnitude;
      if (!kept || spec.role != model::Role::kHead || !layout_.parameters[i].trainable) continue;
      width += static_cast<double>(layout_.parameters[i].tp_shape(layout_.mesh, rank_).front());
    }
    return width;
  }

  bool has_trainable(const model::Unit& unit) const {
    return std::any_of(unit.parameters.begin(), unit.parameters.end(), [this](int index) {
      return layout_.parameters[static_cast<size_t>(index)].trainable;
    });
  }

  // Moves the sizes of all units' gathers and of their reductions' outputs to the first unit, and
  // the sizes of their reductions' inputs to bucket_buffers. Called for strategies that reduce
  // gradients in buckets: all parameters are gathered before the first unit runs, and the buckets'
  // buffers are live until the end of backward.
  void join_units() {
    UnitBytes all;
    for (UnitBytes& unit : out_.units) {
      all.full += unit.full;
      all.gather_buffer += unit.gather_buffer;
      all.reduce_buffer += unit.reduce_buffer;
      all.reduced += unit.reduced;
      unit.full = unit.gather_buffer = unit.gathering = 0;
      unit.reduce_buffer = unit.reduced = 0;
      unit.fills_buckets = unit.gradient > 0 && !unit.waits_for_end;
    }
    out_.units.front().full = all.full;
    out_.units.front().gather_buffer = out_.units.front().gathering = all.gather_buffer;
    out_.units.front().reduced = all.reduced;
    out_.bucket_buffers += all.reduce_buffer;
  }

  // Moves the buffers of decoder layers to a pool that all layers share and that is live during the
  // whole step. The pool has room for the gathered parameters of one layer, for the messages of one
  // gather, and for the gradients of two layers: while the gradients of one layer are computed,
  // those of the other are reduced.
  void pool_layers() {
    UnitBytes most;
    for (UnitBytes& unit : out_.units) {
      if (unit.layer < 0) continue;
      most.full = std::max(most.full, unit.full);
      most.gather_buffer = std::max(most.gather_buffer, unit.gather_buffer);
      most.reduce_buffer = std::max(most.reduce_buffer, unit.reduce_buffer);
      unit.gathering = std::max(0.0, unit.gathering - unit.gather_buffer);  // scratch memory
      unit.full = unit.gather_buffer = unit.reduce_buffer = 0;
    }
    out_.pooled_parameters = most.full;
    out_.pooled_messages = most.gather_buffer + 2 * most.reduce_buffer;
  }

  void add_activations(const model::Unit& unit, bool first_trained, UnitBytes& bytes) const {
    if (unit.layer >= 0) {
      const LayerActivations layer(context_, layout_, rank_, unit, first_trained);
      bytes.activations = layer.kept();
      bytes.passing = layer.passing();
      bytes.recomputed = layer.recomputed();
      bytes.backward = layer.backward();
      const LayerActivations::Owed owed = layer.owed();
      bytes.owed = owed.all;
      bytes.owed_first = owed.down_input;
      // owed_later excludes the gradients of gate and up. At `later` these gradients have replaced
      // the saved outputs of gate and up, so `activations` counts them already.
      bytes.owed_later = owed.down;
      bytes.owed_attention = owed.feed_forward;
    } else if (unit.kind == model::UnitKind::kEmbedding) {
      bytes.activations = embedding_activations(context_, config_);
      bytes.looked_up = true;
      bytes.backward_reads = !layout_.inventory.names.embedding_norm.empty();
      bytes.owed =
          bytes.activations + hidden_bytes(context_, static_cast<double>(config_.hidden_size));
    } else if (unit.kind == model::UnitKind::kHead && out_.head_trains) {
      // The head's input is kept for the gradient of the head's weight. The gradient of the logits
      // is kept, too, but MemorySnapshot::logits counts it.
      bytes.owed =
          context_.tokens * static_cast<double>(config_.hidden_size) * context_.product_bytes;
    } else if (unit.kind == model::UnitKind::kRoot) {
      const double width = head_adapter_width();
      bytes.activations =
          final_norm_activations(context_, config_, out_.head_trains || width > 0.0) +
          context_.tokens * width * context_.product_bytes;
    }
  }

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const layout::Layout& layout_;
  int64_t rank_;
  int64_t stage_;  // the rank's index along pp
  int64_t ep_;     // the rank's index along ep
  const ActivationContext& context_;
  double storage_ = 4;
  double compute_ = 4;
  double reduce_ = 4;
  int64_t post_forward_ = 0;  // result of layout::post_forward_size for the plan
  bool offloaded_ = false;    // parameters, gradients and optimizer states are in host memory
  // The gradients of each micro-batch are reduced and added to those of earlier micro-batches.
  bool adds_reductions_ = false;
  std::vector<std::optional<size_t>> unit_of_;  // per parameter: its unit in out_.units
  std::vector<Held> held_;                      // numbers of elements, [parameter]
  StepUnits out_;
};

}  // namespace

StepUnits measure_units(const config::Plan& plan, const model::ModelConfig& config,
                        const layout::Layout& layout, int64_t rank,
                        const ActivationContext& context) {
  return Measure(plan, config, layout, rank, context).run();
}

}  // namespace am::predict
