#include "am/predict/memory/peak_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "am/base/units.h"
#include "am/pipeline/schedule.h"
#include "am/predict/time/step_time.h"

namespace am::predict {
namespace {

// Bytes of one parameter element's storage, gradient and optimizer states.
struct StateBytes {
  double parameter, gradient, optimizer;
};

StateBytes state_bytes(const Workload& workload) {
  const cluster::Implementation& who = *workload.implementation;
  if (workload.format == ComputeFormat::kFp32 || workload.compute_bytes == 4.0) {
    return {4.0, 4.0, 4.0 * workload.states};
  }
  if (who.states_in_storage) {
    return {workload.storage_bytes, workload.storage_bytes,
            workload.states * workload.storage_bytes};
  }
  // The bytes in `who` (plans/measured/implementations.toml) assume float32 master copies and the
  // two float32 states of AdamW. `fewer`: bytes per element by which the states of this plan's
  // optimizer are smaller.
  const double fewer = 4.0 * (2.0 - workload.states);
  // In fp16 training gradients are reduced in fp16, and float32 copies of them are counted as
  // optimizer state.
  if (workload.format == ComputeFormat::kFp16) return {2.0, 2.0, 16.0 - fewer};
  return {who.parameter_bytes, who.gradient_bytes + workload.more_gradient_bytes,
          std::max(0.0, who.optimizer_bytes - fewer)};
}

// Adds the stored bytes of `numel` parameter elements (parameters, gradients and optimizer states)
// to `peak`. `group`: the ranks over which the ZeRO level workload.sharding shards these states.
void add_states(const Workload& workload, double numel, const ShardGroup& group, PeakMemory& peak) {
  const StateBytes bytes = state_bytes(workload);
  const double shards = state_shards(workload, group);
  const auto part = [&](Sharding from) { return workload.sharding >= from ? shards : 1.0; };
  peak.parameters += numel * bytes.parameter / part(Sharding::kParameters);
  peak.gradients += numel * bytes.gradient / part(Sharding::kGradients);
  peak.optimizer += numel * bytes.optimizer / part(Sharding::kOptimizer);
}

// Returns the bytes per token and layer that torchtitan's selective checkpointing keeps: the
// outputs of attention and of every second matmul, and the inputs of attention and the
// feed-forward.
double selective_bytes(const Workload& workload, const model::LayerProfile& layer) {
  const model::AttentionProfile& a = layer.attention;
  const auto n = static_cast<double>(a.heads);
  const auto k = static_cast<double>(a.key_value_heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  const model::FeedForwardProfile& f = layer.feed_forward;
  const double matrices = f.gated ? 2.0 : 1.0;
  const double h = workload.model.hidden;
  const double width = static_cast<double>(f.dense_width + f.shared_width) +
                       static_cast<double>(f.experts_per_token * f.expert_width);
  const double products = n * qk + k * (qk + v) + matrices * width;
  return 2.0 * h / workload.sequence_parts() * workload.compute_bytes +
         (n * v + 0.5 * products) / workload.tp * workload.product_bytes;
}

// Returns the bytes per element of a matmul's input that is saved for the gradient of the weight.
double saved_input_bytes(const Workload& workload) {
  return workload.narrow_bytes > 0.0 ? workload.narrow_bytes : workload.product_bytes;
}

// Returns the bytes per token that one layer's feed-forward saves for backward.
double feed_forward_bytes(const Workload& workload, const model::FeedForwardProfile& f) {
  const cluster::Implementation& who = *workload.implementation;
  const double wide = f.gated ? who.gated_bytes : who.plain_bytes;
  const double local = static_cast<double>(f.dense_width + f.shared_width) / workload.tp;
  double bytes = wide * local;
  // Elements of saved matmul inputs that `bytes` counts in bf16: those of the last matmul and, for
  // routed experts, also those of the first.
  double inputs = local;
  if (f.experts > 0) {
    const double rows = static_cast<double>(f.experts_per_token) / workload.sequence_parts();
    const auto width = static_cast<double>(f.expert_width);
    const double in = f.expert_input(workload.model.hidden);
    bytes += rows * (wide * width + 4.0 * in);
    inputs += rows * (width + in);
  }
  // The implementation's bytes per element are for bf16, hence the division by 2.
  return bytes * workload.product_bytes / 2.0 -
         inputs * (workload.product_bytes - saved_input_bytes(workload));
}

// Returns the bytes per token that one layer does not save because backward recomputes `modules`
// (Megatron's names). If layernorm, mla_up_proj, mlp_act or moe_act is recomputed, the next module
// does not save the recomputed output. Any other recomputed module saves none of its own tensors.
double dropped_bytes(const Workload& workload, const model::LayerProfile& layer,
                     const config::RecomputedModules& modules) {
  const model::AttentionProfile& a = layer.attention;
  const model::FeedForwardProfile& f = layer.feed_forward;
  const auto n = static_cast<double>(a.heads);
  const auto k = static_cast<double>(a.key_value_heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  double wide = 0.0;  // bytes per token on all tp ranks together, for values in bf16
  // Fused attention saves only its inputs and its output, which its neighbours save anyway.
  if (modules.core_attn && workload.unfused_attention) wide += 5.0 * n * workload.sequence;
  if (modules.mla_up_proj) wide += 2.0 * (n * qk + k * (qk + v));
  double bytes = wide / workload.tp * workload.product_bytes / 2.0;
  if (modules.layernorm) {  // the outputs of the norms
    const double each =
        workload.narrow_bytes > 0.0 ? workload.narrow_bytes : workload.compute_bytes;
    bytes += layer.hidden_norms * workload.model.hidden * each / workload.sequence_parts();
  }
  if (f.experts == 0) {
    if (modules.mlp) return bytes + feed_forward_bytes(workload, f);
    const double input = static_cast<double>(f.dense_width) / workload.tp;  // of the second matrix
    return bytes + (modules.mlp_act ? input * saved_input_bytes(workload) : 0.0);
  }
  if (modules.moe) return bytes + feed_forward_bytes(workload, f);
  if (modules.moe_act) {  // the input of an expert's second matrix
    bytes += static_cast<double>(f.experts_per_token * f.expert_width) *
             saved_input_bytes(workload) / workload.sequence_parts();
  }
  if (modules.shared_experts) {
    bytes += feed_forward_bytes(workload, {.gated = f.gated, .shared_width = f.shared_width});
  }
  return bytes;
}

// Returns the bytes per token that one checkpointed layer keeps until backward.
double kept_bytes(const Workload& workload, const model::LayerProfile& layer) {
  const double whole = layer_activation_bytes(workload, layer);
  const double input = workload.model.hidden * workload.compute_bytes / workload.sequence_parts();
  switch (workload.recompute) {
    case config::ActivationCheckpointing::kSelective:
      if (workload.megatron.recomputed) {
        return whole - dropped_bytes(workload, layer, *workload.megatron.recomputed);
      }
      return std::min(whole, selective_bytes(workload, layer));
    case config::ActivationCheckpointing::kMlp:
      return std::min(whole, whole - feed_forward_bytes(workload, layer.feed_forward) + input);
    case config::ActivationCheckpointing::kFull:
      return input;
    case config::ActivationCheckpointing::kOff:
      break;
  }
  return whole;
}

std::vector<int64_t> count_in_flight(pipeline::PipelineShape shape, int64_t position) {
  if (pipeline::violated_constraint(shape)) {
    // A constraint of the schedule excludes this number of micro-batches, but Megatron supports the
    // number. The next multiple of pp needs the same memory.
    shape.microbatches = (shape.microbatches + shape.pp - 1) / shape.pp * shape.pp;
  }
  if (pipeline::violated_constraint(shape)) {
    return std::vector<int64_t>(static_cast<size_t>(shape.stages()), shape.pp);
  }
  return pipeline::in_flight_by_stage(pipeline::make_rank_order(shape, position), shape.stages());
}

// Returns the number of micro-batches in flight on each stage at the peak of this rank, [stage].
// `position`: the rank's index along pp. Results are cached per thread, because a search requests
// the same few pipelines thousands of times.
std::vector<int64_t> in_flight(const Workload& workload, int64_t position) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, bool>;
  constexpr size_t kMostRemembered = 4096;
  thread_local std::map<Key, std::vector<int64_t>> remembered;

  pipeline::PipelineShape shape = pipeline_shape(workload);
  if (shape.pp <= 1) return std::vector<int64_t>(static_cast<size_t>(shape.stages()), 1);
  if (shape.own) return count_in_flight(shape, position);
  // With more than `enough` micro-batches, the number in flight grows only in gpipe and looped_bfs.
  const int64_t enough = 4 * shape.stages();
  if (shape.microbatches > enough && shape.schedule != "gpipe" && shape.schedule != "looped_bfs") {
    shape.microbatches = enough;
  }
  if (remembered.size() > kMostRemembered) remembered.clear();
  const auto [known, is_new] =
      remembered.try_emplace(Key(shape.schedule, shape.pp, shape.virtual_stages, shape.microbatches,
                                 position, shape.may_stay_partly_full));
  if (is_new) known->second = count_in_flight(shape, position);
  std::vector<int64_t> flying = known->second;
  const auto most = static_cast<int64_t>(workload.micro_batches);
  for (int64_t& count : flying) count = std::min(count, most);
  return flying;
}

// Returns the change of a layer's saved bytes per token if matmuls keep FP8 or FP4 operands
// (workload.narrow_bytes). The outputs of both norms, which attention's projections and the
// feed-forward's first matmul save, are narrower. Attention's output of `values` elements is saved
// in 16 bits by attention, and again as a narrow copy by the output projection.
double narrow_difference(const Workload& workload, double values) {
  if (workload.narrow_bytes == 0.0) return 0.0;
  constexpr double kNormOutputs = 2.0;
  return values / workload.tp * workload.narrow_bytes -
         kNormOutputs * workload.model.hidden / workload.sequence_parts() *
             (workload.compute_bytes - workload.narrow_bytes);
}

// Returns the number of layers that backward recomputes together, if the stage checkpoints
// `checkpointed` layers of one kind. Only the first of them keeps its input.
double recomputed_together(const Workload& workload, double checkpointed) {
  return std::min(workload.megatron.recomputed_together, std::max(1.0, checkpointed));
}

}  // namespace

double layer_activation_bytes(const Workload& workload, const model::LayerProfile& layer) {
  const double h = workload.model.hidden;
  const model::AttentionProfile& a = layer.attention;
  const auto n = static_cast<double>(a.heads);
  const auto k = static_cast<double>(a.key_value_heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  double cut = 2.0 * (n * qk + k * (qk + v)) + 2.0 * n * v;
  if (workload.unfused_attention) cut += 5.0 * n * workload.sequence;
  const double hidden = workload.implementation->hidden_bytes * h / workload.sequence_parts();
  // `hidden` and `cut` are bytes of values in bf16, hence the division by 2.
  return (hidden * workload.compute_bytes + cut / workload.tp * workload.product_bytes) / 2.0 +
         feed_forward_bytes(workload, layer.feed_forward) + narrow_difference(workload, n * v);
}

double stage_activation_bytes(const Workload& workload, const StageSummary& stage) {
  double bytes = 0.0;
  for (size_t group = 0; group < workload.model.layers.size(); ++group) {
    if (stage.layers[group] == 0.0) continue;
    const model::LayerProfile& layer = workload.model.layers[group].profile;
    const double checkpointed = stage.checkpointed[group];
    const double together = recomputed_together(workload, checkpointed);
    const double keeping = together > 1.0 ? std::ceil(checkpointed / together) : checkpointed;
    bytes += layer_activation_bytes(workload, layer) * (stage.layers[group] - checkpointed) +
             kept_bytes(workload, layer) * keeping;
  }
  return bytes * workload.local_tokens();
}

namespace {

// Returns the largest number of bytes that one micro-batch saves in a layer of the stage.
double largest_saved(const Workload& workload, const StageSummary& stage) {
  double largest = 0.0;
  for (size_t group = 0; group < workload.model.layers.size(); ++group) {
    const model::LayerProfile& layer = workload.model.layers[group].profile;
    if (stage.layers[group] == 0.0) continue;
    const bool all = stage.checkpointed[group] == stage.layers[group];
    largest = std::max(largest,
                       all ? kept_bytes(workload, layer) : layer_activation_bytes(workload, layer));
  }
  return largest * workload.local_tokens();
}

// Adds the activations of `flying` micro-batches in one stage of the rank.
void add_activations(const Workload& workload, const StageSummary& stage, double flying,
                     PeakMemory& peak) {
  for (size_t group = 0; group < workload.model.layers.size(); ++group) {
    const double checkpointed = stage.checkpointed[group];
    if (checkpointed == 0.0) continue;
    const model::LayerProfile& layer = workload.model.layers[group].profile;
    const double whole = layer_activation_bytes(workload, layer);
    peak.recomputed =
        std::max(peak.recomputed,
                 workload.local_tokens() * (recomputed_together(workload, checkpointed) * whole -
                                            kept_bytes(workload, layer)));
  }
  const double saved = stage_activation_bytes(workload, stage) * flying;
  const double moved = workload.megatron.offloaded_activations * saved;
  // Two layers' activations stay on the device: those of the running layer, and those of the layer
  // whose copy to or from the host is under way.
  constexpr double kStaying = 2.0;
  peak.activations += saved - moved + std::min(moved, kStaying * largest_saved(workload, stage));
  peak.host += moved;
}

// Returns the bytes of gathered parameters and of unsharded gradients. The gathered parameters are
// those of the running layer, of the next layer, and of the embedding or the head; or all
// parameters if they stay gathered. The unsharded gradients are those of the running layer and of
// the layer whose gradients are being reduced. If the reduction is deferred, the gradients of all
// parameters are added. `mine`: the rank's parameters before data parallelism shards them.
double unsharded_bytes(const Workload& workload, const LocalParameters& mine, double largest_layer,
                       bool has_table) {
  const double table = has_table ? workload.layout.table : 0.0;
  const double gathered = workload.reshards ? 2.0 * largest_layer + table : mine.total();
  double bytes = gathered * workload.compute_bytes + 2.0 * largest_layer * workload.reduce_bytes;
  if (workload.defers_reduction) bytes += mine.total() * workload.reduce_bytes;
  return bytes;
}

}  // namespace

PeakMemory estimate_peak_memory(const Workload& workload, int64_t position) {
  PeakMemory peak;
  const LayoutSummary& layout = workload.layout;
  const LocalParameters mine = layout.parameters_of(position);
  add_states(workload, mine.dense, layout.dense, peak);
  add_states(workload, mine.experts, layout.experts, peak);
  if (workload.offloads) {
    peak.host = peak.states();
    peak.parameters = peak.gradients = peak.optimizer = 0.0;
  }
  const std::vector<int64_t> flying = in_flight(workload, position);
  double largest_layer = 0.0;
  for (size_t i = 0; i < layout.stages.size(); ++i) {
    const StageSummary& stage = layout.stages[i];
    if (stage.owner != position) continue;
    add_activations(workload, stage, static_cast<double>(flying[i]), peak);
    for (size_t group = 0; group < stage.layers.size(); ++group) {
      if (stage.layers[group] == 0.0) continue;
      const double elements = layout.of_layer[group].total();
      largest_layer = std::max(largest_layer, elements);
      // Matmuls read narrow copies (FP8 or FP4) of each weight: one for the output and, transposed,
      // one for the gradient of the input. Both copies stay for all micro-batches of a step.
      if (workload.sharding != Sharding::kParameters) {
        peak.parameters += 2.0 * workload.narrow_bytes * stage.layers[group] * elements;
      }
    }
  }
  const double T = workload.local_tokens();
  const bool last = layout.stages.back().owner == position;
  if (last) {
    const double words = T * local_vocabulary(workload);
    peak.logits = words * workload.implementation->logits_bytes;
    peak.loss = words * workload.implementation->logits_gradient_bytes;
  }
  if (workload.sharding == Sharding::kParameters) {
    peak.unsharded = unsharded_bytes(workload, mine, largest_layer, position == 0 || last);
  }
  // Bytes of cuBLAS's workspace and of the batch without its attention mask, as measured in
  // Megatron's tests.
  constexpr double kWorkspace = 96.0 * kMiB;
  peak.workspace = kWorkspace + workload.implementation->mask_bytes * T * workload.sequence;
  return peak;
}

PeakMemory worst_peak_memory(const Workload& workload) {
  PeakMemory worst = estimate_peak_memory(workload, 0);
  const int64_t positions = workload.layout.positions();
  for (const int64_t position : {workload.layout.fullest_position(), positions - 1}) {
    if (position == 0) continue;
    const PeakMemory one = estimate_peak_memory(workload, position);
    if (one.total() > worst.total()) worst = one;
  }
  return worst;
}

double reserved_bytes(const cluster::Implementation& who, double allocated) {
  return allocated * who.reserved;
}

namespace {

constexpr double kContext = 1.3 * kGiB;        // CUDA context; BigScience measured 1.27 GiB
constexpr double kCommunicators = 1.5 * kGiB;  // NCCL's buffers of several process groups
constexpr double kError = 0.15;  // relative error that nine predictions in ten do not exceed

}  // namespace

double process_bytes(const cluster::Implementation& who, double allocated) {
  return reserved_bytes(who, allocated) + kContext + kCommunicators;
}

double usable_bytes(const cluster::Implementation& who, const cluster::Gpu& gpu) {
  const double room = gpu.memory_bytes * (1.0 - kError) - kContext - kCommunicators;
  return std::max(0.0, room / who.reserved);
}

Fit fit_into(const cluster::Implementation& who, double allocated, const cluster::Gpu& gpu) {
  if (allocated <= usable_bytes(who, gpu)) return Fit::kFits;
  // kTooLarge applies only if even the best case does not fit: a peak that is lower by the
  // prediction error, in a process that needs no memory besides this peak.
  return allocated * (1.0 - kError) > gpu.memory_bytes ? Fit::kTooLarge : Fit::kMayFit;
}

}  // namespace am::predict
