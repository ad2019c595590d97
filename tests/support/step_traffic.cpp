#include "support/step_traffic.h"

#include <algorithm>
#include <functional>
#include <map>

#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/layout/precision.h"
#include "am/layout/quantization.h"
#include "am/layout/stage_layout.h"
#include "am/layout/stages.h"
#include "am/layout/units.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory.h"

namespace am::test {

namespace {

// Returns the buckets of ddp, or the one bucket of disable_bucketing; empty for other strategies.
// Buckets contain the parameters in reverse order. ddp closes the first bucket at 1 MiB, and later
// ones at bucket_cap_mb. Experts have separate buckets, because they are reduced over ep_shard.
std::vector<std::vector<int>> buckets_of(const config::Plan& plan, const layout::Layout& layout) {
  const auto* ddp = std::get_if<config::DDPConfig>(&plan.strategy);
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
  if (ddp == nullptr && (megatron == nullptr || !megatron->disable_bucketing)) return {};
  std::vector<std::vector<int>> buckets;
  std::map<bool, size_t> open;  // index of the open bucket: key true for experts, false for others
  std::map<bool, int64_t> bytes;  // bytes of trainable parameters in the open bucket
  for (size_t i = layout.parameters.size(); i-- > 0;) {
    const bool of_experts = layout.parameters[i].expert_parallel();
    const auto last = open.find(of_experts);
    const bool first = last != open.end() && last->second == 0;
    const int64_t cap = (first ? 1 : ddp == nullptr ? 0 : ddp->bucket_cap_mb) << 20;
    if (last == open.end() || (ddp != nullptr && bytes[of_experts] >= cap)) {
      open[of_experts] = buckets.size();
      bytes[of_experts] = 0;
      buckets.emplace_back();
    }
    buckets[open[of_experts]].push_back(static_cast<int>(i));
    if (!layout.parameters[i].trainable) continue;
    bytes[of_experts] += numel(layout.parameters[i].shape) *
                         static_cast<int64_t>(layout::dtype_size(plan.model.dtype));
  }
  return buckets;
}

using Send = std::function<void(const std::string& what, int64_t bytes, int64_t times)>;

// Elements, with padding, that one rank stores. `dense` counts parameters sharded over dp_shard_cp;
// `experts` counts the parameters of experts, sharded over ep_shard.
struct Pieces {
  int64_t dense = 0, experts = 0;
};

Pieces pieces_of(const layout::Layout& layout, const std::vector<int>& parameters, int64_t rank,
                 bool trained_alone) {
  Pieces pieces;
  for (const int index : parameters) {
    const auto& parameter = layout.parameters[static_cast<size_t>(index)];
    if (trained_alone && !parameter.trainable) continue;
    if (parameter.ep_owner.value_or(layout.mesh.index(rank, "ep")) !=
        layout.mesh.index(rank, "ep")) {
      continue;
    }
    (parameter.expert_parallel() ? pieces.experts : pieces.dense) +=
        parameter.stored_numel(layout.mesh, rank);
  }
  return pieces;
}

bool cuts_parameters(const layout::Layout& layout) {
  return std::any_of(layout.parameters.begin(), layout.parameters.end(),
                     [](const auto& each) { return each.fsdp; });
}

// Adds `times` all-gathers of these parameters, with `bytes` bytes per element. Quantized
// parameters are gathered separately. `suffix` completes the name of the group.
void send_gather(const layout::Layout& layout, const std::vector<int>& parameters, int64_t rank,
                 int64_t bytes, int64_t times, const Send& send, const std::string& suffix = {}) {
  const int64_t shards = layout.mesh.group_size("dp_shard_cp");
  const int64_t of_experts = layout.mesh.group_size("ep_shard");
  for (const bool quantized : {false, true}) {
    const Pieces pieces = pieces_of(layout, layout.stored_as(parameters, quantized), rank, false);
    const auto size = [&](int64_t numel) {
      return quantized ? layout::nf4_bytes(numel) : numel * bytes;
    };
    if (shards > 1) {
      send(cat("all_gather dp_shard_cp", suffix), size(pieces.dense) * shards, times);
    }
    if (of_experts == 1 || !cuts_parameters(layout)) continue;
    send(cat("all_gather ep_shard", suffix), size(pieces.experts) * of_experts, times);
  }
}

// Adds `times` reductions of the parameters' gradients. Experts' gradients are all-reduced if the
// strategy does not shard parameters.
void send_reduction(const layout::Layout& layout, const Pieces& pieces, int64_t bytes,
                    int64_t times, const Send& send) {
  const int64_t shards = layout.mesh.group_size("dp_shard_cp");
  const int64_t replicas = layout.mesh.group_size("dp_replicate");
  const int64_t of_experts = layout.mesh.group_size("ep_shard");
  if (shards > 1) send("reduce_scatter dp_shard_cp", pieces.dense * shards * bytes, times);
  if (replicas > 1) send("all_reduce dp_replicate", pieces.dense * bytes, times);
  if (of_experts == 1) return;
  if (cuts_parameters(layout)) {
    send("reduce_scatter ep_shard", pieces.experts * of_experts * bytes, times);
  } else {
    send("all_reduce ep_shard", pieces.experts * bytes, times);
  }
}

// Adds the messages by which the MoE layers of this rank send tokens to experts and receive the
// outputs. Assumes that rows are distributed evenly over the experts.
void add_dispatch(const config::Plan& plan, const model::ModelConfig& config,
                  const layout::Layout& layout, int64_t rank, const Send& send) {
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  if (sizes.ep == 1) return;
  const predict::ActivationContext context = predict::activation_context(plan, layout);
  const auto rows = static_cast<int64_t>(context.routed_tokens()) * config.moe->experts_per_token;
  const int64_t message = rows * config.hidden_size * static_cast<int64_t>(context.product_bytes);
  constexpr int64_t kWeight = 4, kCount = 8;
  const int64_t micro_batches = config::batch_shape(plan, sizes.dp()).micro_batches;
  const int64_t again = context.checkpointing != config::ActivationCheckpointing::kOff ? 1 : 0;
  for (const model::Unit& unit : layout.units) {
    if (unit.layer < 0 || !layout.inventory.spec.layer(unit.layer).router) continue;
    const auto& first = layout.parameters[static_cast<size_t>(unit.parameters.front())];
    if (layout.stage_owners[static_cast<size_t>(first.stage)] != layout.mesh.index(rank, "pp")) {
      continue;
    }
    send("all_to_all ep", config.moe->experts * kCount, micro_batches);
    send("all_to_all ep", message, micro_batches * (4 + again));
    send("all_to_all ep", rows * kWeight, micro_batches * (2 + again));
  }
}

// Adds the messages of one pipeline rank: hidden states and their gradients between neighbours,
// all-gathers of parameters as the schedule requires, reductions of gradients, and one message in
// each direction for a tied weight.
void add_pipeline(const config::Plan& plan, const model::ModelConfig& config,
                  const layout::Layout& layout, int64_t rank, const Send& send) {
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  const auto compute = static_cast<int64_t>(layout::dtype_size(precision.compute));
  const auto reduce = static_cast<int64_t>(layout::dtype_size(precision.reduce));
  const auto shape = layout::pipeline_shape(plan, sizes.pp, sizes.dp());
  const auto lists = pipeline::with_communication(pipeline::make_schedule(shape));
  const int64_t here = layout.mesh.index(rank, "pp");
  const int64_t rounds = config::batch_shape(plan, sizes.dp()).micro_batches / shape.microbatches;
  const int64_t hidden = plan.train.micro_batch_size * plan.train.seq_len / sizes.cp *
                         config.hidden_size * compute /
                         (layout.tp_plan.sequence_parallel ? sizes.tp : 1);
  const int64_t reductions = config::defers_gradient_sync(plan.strategy)
                                 ? 1
                                 : config::batch_shape(plan, sizes.dp()).micro_batches;
  std::map<int, int64_t> gathers;  // number of all-gathers per stage in one run of the schedule
  for (const auto& slot : lists.at(static_cast<size_t>(here))) {
    for (const pipeline::Action& action : slot.actions()) {
      using enum pipeline::Kind;
      if (action.kind == kUnshard) ++gathers[action.stage];
      if (action.kind == kSendForward || action.kind == kSendBackward) {
        send("send pp", hidden, rounds);
      }
      if (action.kind == kRecvForward || action.kind == kRecvBackward) {
        send("receive pp", hidden, rounds);
      }
    }
  }
  for (const auto& [stage, times] : gathers) {
    const layout::Layout own = layout::stage_layout(layout, stage);
    for (const model::Unit& unit : own.units) {
      send_gather(own, unit.parameters, rank, compute, times * rounds, send);
      send_reduction(own, pieces_of(own, unit.parameters, rank, true), reduce, reductions, send);
    }
  }
  for (const auto& parameter : layout.parameters) {
    if (!parameter.tied_stage || !parameter.trainable || layout.copies(rank, parameter) != 1) {
      continue;
    }
    const auto stored = static_cast<int64_t>(layout::dtype_size(precision.storage));
    const int64_t bytes = numel(parameter.own_shape(layout.mesh, rank)) * stored;
    send("send pp", bytes, 1);
    send("receive pp", bytes, 1);
  }
}

}  // namespace

Traffic step_traffic(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, int64_t rank) {
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  const int64_t micro_batches = config::batch_shape(plan, sizes.dp()).micro_batches;
  const int64_t reductions = config::defers_gradient_sync(plan.strategy) ? 1 : micro_batches;
  const int64_t post_forward = layout::post_forward_size(plan.strategy, sizes);
  const auto reshard = layout::reshard_after_forward(plan.strategy, layout.units, sizes.pp);

  Traffic traffic;
  const auto send = [&](const std::string& what, int64_t bytes, int64_t times) {
    if (times == 0 || bytes == 0) return;
    traffic[what].first += bytes * times;
    traffic[what].second += times;
  };
  const auto reduce_bytes = static_cast<int64_t>(layout::dtype_size(precision.reduce));
  const auto compute_bytes = static_cast<int64_t>(layout::dtype_size(precision.compute));
  const auto reduce = [&](const std::vector<int>& parameters) {
    const Pieces trained = pieces_of(layout, parameters, rank, true);
    send_reduction(layout, trained, reduce_bytes, reductions, send);
  };
  const int64_t ranks = layout.mesh.world_size();
  int64_t counts = 0;  // token counts of all layers' experts, and the balance loss if there is one
  if (config.moe) {
    const auto& layers = config.moe->layers;
    counts = config.moe->experts * std::count(layers.begin(), layers.end(), true);
    if (plan.experts.balancing == "sequence") ++counts;
  }
  if (ranks > 1) send("all_reduce world", 8 * (6 + ranks + counts), 1);
  add_dispatch(plan, config, layout, rank, send);
  if (sizes.pp > 1) {
    add_pipeline(plan, config, layout, rank, send);
    return traffic;
  }
  const auto buckets = buckets_of(plan, layout);
  for (const auto& bucket : buckets) {
    send_gather(layout, bucket, rank, compute_bytes, micro_batches, send);
    reduce(bucket);
  }
  // Backward ends with the first unit that has a trainable parameter. Parameters are in forward
  // order.
  int first_trained = 0;
  while (!layout.parameters[static_cast<size_t>(first_trained)].trainable) ++first_trained;
  for (size_t i = 0; i < layout.units.size() && buckets.empty(); ++i) {
    const std::vector<int> parameters = layout.gathered(layout.units[i]);
    const bool has_backward = layout.units[i].parameters.back() >= first_trained;
    const bool embedding = layout.units[i].name == layout.inventory.names.embedding;
    const bool tied = embedding && config.tie_word_embeddings;
    const int64_t forward = tied && reshard[i] ? 2 : 1;
    const int64_t backward = reshard[i] && (tied || (!embedding && has_backward)) ? 1 : 0;
    // With reshard_after_forward = n, a unit's parameters stay sharded over n ranks after forward.
    // `from_kept` is the number of gathers over these n ranks: one in backward, and for a tied
    // embedding one more in forward, when the head uses the weight.
    const int64_t from_kept = post_forward > 0 && reshard[i] ? backward + forward - 1 : 0;
    send_gather(layout, parameters, rank, compute_bytes,
                micro_batches * (forward + backward - from_kept), send);
    send_gather(layout, parameters, rank, compute_bytes, micro_batches * from_kept, send,
                cat("/", post_forward));
    reduce(parameters);
  }
  if (layout.mesh.group_size("dp_cp") > 1) {
    const Pieces ignored = pieces_of(layout, layout.ignored(), rank, true);
    send("all_reduce dp_cp", ignored.dense * reduce_bytes, reductions);
    if (layout.mesh.group_size("ep_shard") > 1) {
      send("all_reduce ep_shard", ignored.experts * reduce_bytes, reductions);
    }
  }
  return traffic;
}

}  // namespace am::test
