#include "am/planner/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <variant>

#include "am/base/text.h"
#include "am/planner/activations.h"
#include "am/planner/buckets.h"
#include "am/planner/dtype_size.h"
#include "am/planner/precision.h"
#include "am/planner/rules/catalogue.h"
#include "am/planner/units.h"

namespace am::planner {
namespace {

// Formulas run in double and end as integers. Absurd plans saturate instead of overflowing.
int64_t to_bytes(double bytes) {
  constexpr double kMost = 4.0e18;
  return static_cast<int64_t>(std::llround(std::min(bytes, kMost)));
}

// One unit on this rank. All sizes in bytes.
struct UnitBytes {
  std::string name;
  int layer = -1;
  bool reshards = true;    // freed after forward
  bool looked_up = false;  // the embedding: its backward needs no parameters
  bool waits_for_end =
      false;                 // the tied head: its gradient meets the embedding's when backward ends
  double full = 0;           // gathered parameters, when they are storage of their own
  double gradient = 0;       // the largest of one parameter, compute dtype: they leave one by one
  double gather_buffer = 0;  // all-gather's input copy and output
  double kept = 0;           // of the gathered parameters, between forward and backward
  double reduce_buffer = 0;  // what the gradients are packed into: the reduction's input
  double reduced = 0;        // its output, where that is not the stored gradient
  double activations = 0;    // saved in forward
  double recomputed = 0;     // live in this unit's backward only

  // In flight while the next unit computes.
  double pending() const { return reduce_buffer + reduced; }
};

class Walk {
 public:
  Walk(const config::Plan& plan, const model::ModelConfig& config, const Layout& layout,
       int64_t rank)
      : plan_(plan),
        config_(config),
        layout_(layout),
        rank_(rank),
        stage_(layout.mesh.index(rank, "pp")),
        ep_(layout.mesh.index(rank, "ep")) {
    const StepPrecision precision = resolve_precision(plan);
    storage_ = static_cast<double>(dtype_size(precision.storage));
    compute_ = static_cast<double>(dtype_size(precision.compute));
    reduce_ = static_cast<double>(dtype_size(precision.reduce));
    post_forward_ = post_forward_size(plan.strategy, layout.mesh.sizes());
    offloaded_ = offloads_to_host(plan.strategy);
    adds_reductions_ =
        micro_batches(plan, layout.mesh.sizes()) > 1 && !defers_gradient_sync(plan.strategy);
    context_ = activation_context(plan, layout.mesh);
  }

  RankMemory run() {
    fill_states();
    list_units();
    forward();
    backward();
    return std::move(peak_);
  }

 private:
  const mesh::MeshSizes& sizes() const { return layout_.mesh.sizes(); }

  // Layout::holds for this rank, asked for every parameter.
  bool is_mine(const ParameterLayout& parameter) const {
    return layout_.stage_owners[static_cast<size_t>(parameter.stage)] == stage_ &&
           (!parameter.ep_owner.has_value() || *parameter.ep_owner == ep_);
  }

  // Parameters, their gradients and AdamW's two moments are flat tensors of one layout and dtype;
  // one step count serves all of them.
  void fill_states() {
    int64_t stored = 0;
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (is_mine(parameter)) stored += parameter.stored_numel(layout_.mesh, rank_);
    }
    const auto element = static_cast<int64_t>(storage_);
    base_.parameters = stored * element;
    base_.gradients = stored * element;
    base_.optimizer = 2 * stored * element;
    if (offloaded_) {
      base_.host = 4 * stored * element;
      base_.parameters = base_.gradients = base_.optimizer = 0;
    }
    const double table = 2.0 * context_.sequence * static_cast<double>(config_.head_dim);
    base_.other = to_bytes(table * compute_);
    peak_.rank = rank_;
    peak_.stage = stage_;
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
      units_.push_back(std::move(unit));
    }
    if (config_.tie_word_embeddings && sizes().pp == 1) {
      // The embedding's unit is gathered again for the head, and freed after it.
      UnitBytes head = measure(layout_.units.front(), reshard.front());
      head.name = "the tied head";
      head.waits_for_end = true;
      if (!head.reshards) head.full = head.gather_buffer = 0;  // it never went away
      head.kept = 0;
      units_.push_back(std::move(head));
    }
    if (reuses_buffers(plan_.strategy)) pool_layers();
    if (!gradient_buckets(plan_, layout_).empty()) join_units();
  }

  // Buckets are gathered before the first unit, and their messages live until backward is over.
  void join_units() {
    UnitBytes all;
    for (UnitBytes& unit : units_) {
      all.full += unit.full;
      all.gather_buffer += unit.gather_buffer;
      if (!unit.waits_for_end) all.reduce_buffer += unit.reduce_buffer;
      if (!unit.waits_for_end) all.reduced += unit.reduced;
      unit.full = unit.gather_buffer = unit.reduce_buffer = unit.reduced = 0;
    }
    units_.front().full = all.full;
    units_.front().gather_buffer = all.gather_buffer;
    units_.front().reduced = all.reduced;
    bucket_buffers_ = all.reduce_buffer;
  }

  // The layers' buffers are there all the time: one unit's full tensors and its gather, and two
  // units' gradients, one on its way and one being made.
  void pool_layers() {
    UnitBytes most;
    for (UnitBytes& unit : units_) {
      if (unit.layer < 0) continue;
      most.full = std::max(most.full, unit.full);
      most.gather_buffer = std::max(most.gather_buffer, unit.gather_buffer);
      most.reduce_buffer = std::max(most.reduce_buffer, unit.reduce_buffer);
      unit.full = unit.gather_buffer = unit.reduce_buffer = 0;
    }
    now_.unsharded += most.full;
    now_.communication += most.gather_buffer + 2 * most.reduce_buffer;
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
    } else if (unit.name == layout_.inventory.names.embedding) {
      bytes.activations = embedding_activations(context_);
      bytes.looked_up = true;
    } else if (unit.name.empty()) {
      bytes.activations = final_norm_activations(context_, config_);
    }
  }

  // This rank's slice of the vocabulary at the head; 0 on stages without it.
  double vocabulary() const {
    if (stage_ != layout_.stage_owners.back()) return 0.0;
    const model::ModuleNames& names = layout_.inventory.names;
    const std::string weight =
        cat(config_.tie_word_embeddings ? names.embedding : names.head, ".weight");
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (parameter.name != weight) continue;
      return static_cast<double>(parameter.tp_shape(layout_.mesh, rank_)[0]);
    }
    return 0.0;
  }

  struct Moment {
    double activations = 0;
    double logits = 0;
    double unsharded = 0;
    double communication = 0;
  };

  void look(std::string name, const Moment& moment) {
    MemoryComponents now = base_;
    now.activations = to_bytes(moment.activations);
    now.logits = to_bytes(moment.logits);
    now.unsharded = to_bytes(moment.unsharded);
    now.communication = to_bytes(moment.communication);
    if (now.total() <= peak_.components.total()) return;
    peak_.components = now;
    peak_.moment = std::move(name);
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
      if (in_backward && (!unit.reshards || unit.looked_up)) continue;
      bytes += unit.gather_buffer;
    }
    return bytes;
  }

  void forward() {
    const int64_t depth = prefetch_depths(plan_.strategy).forward;
    if (accumulates()) {
      now_.communication += bucket_buffers_;
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
      look(cat("forward of ", unit.name, ", gathering"), gathering);
      now_.activations += unit.activations;
      Moment computing = now_;
      computing.communication += gathering_ahead(i + 1, depth, false);
      look(cat("forward of ", unit.name), computing);
      if (unit.reshards) now_.unsharded -= unit.full - unit.kept;
    }
    const double head = vocabulary() * static_cast<double>(config_.hidden_size);
    now_.activations += cast_weights_bytes(context_, head);
    now_.logits = logits_bytes(context_, vocabulary());
    look("backward of the loss", now_);
    now_.logits = logits_gradient_bytes(context_, vocabulary());
  }

  // From the last unit to the first. The reduction of one unit is in flight while the next
  // computes.
  void backward() {
    const int64_t depth = prefetch_depths(plan_.strategy).backward;
    double pending = 0;
    if (!accumulates()) now_.communication += bucket_buffers_;
    for (size_t i = units_.size(); i-- > 0;) {
      const UnitBytes& unit = units_[i];
      const double ahead = i == 0 ? 0.0 : gathering_ahead(i - 1, -depth, true);
      if (unit.reshards && !unit.looked_up) {
        now_.unsharded += unit.full;
        Moment gathering = now_;
        gathering.communication += unit.gather_buffer + pending;
        look(cat("backward of ", unit.name, ", gathering"), gathering);
      }
      Moment computing = now_;
      computing.activations += unit.recomputed;
      computing.unsharded += unit.gradient;
      computing.communication += pending + ahead;
      // The tied head's gradient waits in autograd for the embedding's.
      if (!unit.waits_for_end && !accumulates()) computing.communication += unit.reduce_buffer;
      look(cat("backward of ", unit.name), computing);
      now_.logits = 0;
      now_.activations -= unit.activations;
      if (unit.waits_for_end) {
        now_.unsharded += unit.gradient;
        continue;
      }
      if (!unit.looked_up || !unit.reshards) now_.unsharded -= unit.full;
      now_.unsharded -= unit.kept;
      // It leaves as the one before it arrives.
      Moment reducing = now_;
      reducing.communication += pending + unit.reduced;
      if (!accumulates()) reducing.communication += unit.reduce_buffer;
      look(cat("backward of ", unit.name, ", reducing"), reducing);
      if (accumulates()) now_.communication -= unit.reduce_buffer;
      pending = unit.pending();
    }
  }

  bool accumulates() const { return keeps_whole_gradients(plan_, sizes()); }

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const Layout& layout_;
  int64_t rank_;
  int64_t stage_;  // index along pp
  int64_t ep_;     // index along ep
  double storage_ = 4;
  double compute_ = 4;
  double reduce_ = 4;
  int64_t post_forward_ = 0;      // see post_forward_size
  bool offloaded_ = false;        // see offloads_to_host
  bool adds_reductions_ = false;  // each micro-batch's gradients are reduced, and added up
  ActivationContext context_;
  MemoryComponents base_;
  std::vector<UnitBytes> units_;
  double bucket_buffers_ = 0;  // what gradients are packed into where that is not by unit
  Moment now_;
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

int64_t micro_batches(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  const int64_t one = plan.train.micro_batch_size * sizes.dp();
  return std::max<int64_t>(1, global_batch_size(plan, sizes) / one);
}

bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  if (micro_batches(plan, sizes) == 1) return false;
  return defers_gradient_sync(plan.strategy);
}

RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const Layout& layout, int64_t rank) {
  return Walk(plan, config, layout, rank).run();
}

std::vector<int64_t> distinct_ranks(const mesh::MeshLayout& mesh) {
  const mesh::MeshSizes& sizes = mesh.sizes();
  std::set<int64_t> ranks;
  for (int64_t pp = 0; pp < sizes.pp; ++pp) {
    for (const int64_t shard : {int64_t{0}, sizes.dp_shard - 1}) {
      for (const int64_t cp : {int64_t{0}, sizes.cp - 1}) {
        for (const int64_t tp : {int64_t{0}, sizes.tp - 1}) {
          ranks.insert(mesh.rank({pp, 0, shard, cp, tp}));
        }
      }
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const Layout& layout) {
  std::vector<RankMemory> worst(static_cast<size_t>(layout.mesh.sizes().pp));
  for (const int64_t rank : distinct_ranks(layout.mesh)) {
    RankMemory memory = estimate_memory(plan, config, layout, rank);
    RankMemory& known = worst[static_cast<size_t>(memory.stage)];
    if (memory.components.total() > known.components.total()) known = std::move(memory);
  }
  return worst;
}

}  // namespace am::planner
