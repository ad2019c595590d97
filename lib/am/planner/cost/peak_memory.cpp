#include "am/planner/cost/peak_memory.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "am/base/units.h"
#include "am/planner/cost/step_time.h"
#include "am/schedule/schedule.h"

namespace am::planner {
namespace {

// Bytes of one parameter's own storage, gradient and optimizer states.
struct StateBytes {
  double parameter, gradient, optimizer;
};

StateBytes state_bytes(const Workload& job) {
  const Implementation& who = *job.implementation;
  if (job.format == ComputeFormat::kFp32) return {4.0, 4.0, 8.0};
  if (who.states_in_storage) return {job.storage_bytes, job.storage_bytes, 2.0 * job.storage_bytes};
  // fp16 reduces in fp16, and its master gradients are float32 copies.
  if (job.format == ComputeFormat::kFp16) return {2.0, 2.0, 16.0};
  return {who.parameter_bytes, who.gradient_bytes + job.more_gradient_bytes, who.optimizer_bytes};
}

double held_bytes(const Workload& job, double numel, double shards) {
  const StateBytes bytes = state_bytes(job);
  switch (job.sharding) {
    case Sharding::kReplicated:
      return numel * (bytes.parameter + bytes.gradient + bytes.optimizer);
    case Sharding::kOptimizer:
      return numel * (bytes.parameter + bytes.gradient + bytes.optimizer / shards);
    case Sharding::kGradients:
      return numel * (bytes.parameter + (bytes.gradient + bytes.optimizer) / shards);
    case Sharding::kParameters:
      return numel * (bytes.parameter + bytes.gradient + bytes.optimizer) / shards;
  }
  return 0.0;
}

// Outputs of attention and of every second matrix product, and the layer's input: what torchtitan's
// selective checkpointing keeps.
double selective_bytes(const Workload& job, const model::LayerProfile& layer) {
  const model::AttentionProfile& a = layer.attention;
  const auto n = static_cast<double>(a.heads);
  const auto k = static_cast<double>(a.key_value_heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  const model::FeedForwardProfile& f = layer.feed_forward;
  const double matrices = f.gated ? 2.0 : 1.0;
  const double h = job.model.hidden;
  const double width = static_cast<double>(f.dense_width + f.shared_width) +
                       static_cast<double>(f.experts_per_token * f.expert_width);
  const double products = n * qk + k * (qk + v) + matrices * width;
  return job.compute_bytes * (2.0 * h / job.sequence_parts() + (n * v + 0.5 * products) / job.tp);
}

// Of one layer after recomputation has its way: what stays until backward.
double kept_bytes(const Workload& job, const model::LayerProfile& layer) {
  const double whole = layer_activation_bytes(job, layer);
  const double input = job.model.hidden * job.compute_bytes / job.sequence_parts();
  switch (job.recompute) {
    case Recompute::kNone:
      return whole;
    case Recompute::kSelective:
      return std::min(whole, selective_bytes(job, layer));
    case Recompute::kAlternate:
      return 0.5 * (whole + input);
    case Recompute::kFull:
      return input;
  }
  return whole;
}

std::vector<int64_t> count_in_flight(schedule::PipelineShape shape, int64_t position) {
  if (schedule::violated_demand(shape)) {
    // Megatron takes any count; the nearest whole round holds as much.
    shape.microbatches = (shape.microbatches + shape.pp - 1) / shape.pp * shape.pp;
  }
  if (schedule::violated_demand(shape)) {
    return std::vector<int64_t>(static_cast<size_t>(shape.stages()), shape.pp);
  }
  return schedule::in_flight_by_stage(schedule::make_rank_order(shape, position), shape.stages());
}

// Micro-batches of each stage that are in flight at once on this position, [stage]. A search asks
// for the same few pipelines thousands of times, so each thread remembers what it has counted.
std::vector<int64_t> in_flight(const Workload& job, int64_t position) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t>;
  constexpr size_t kMostRemembered = 4096;
  thread_local std::map<Key, std::vector<int64_t>> remembered;

  schedule::PipelineShape shape = pipeline_shape(job);
  if (shape.pp <= 1) return {1};
  // Later micro-batches change nothing.
  const int64_t enough = 4 * shape.stages();
  if (shape.microbatches > enough && shape.schedule != "gpipe" && shape.schedule != "looped_bfs") {
    shape.microbatches = enough;
  }
  if (remembered.size() > kMostRemembered) remembered.clear();
  const auto [known, is_new] = remembered.try_emplace(
      Key(shape.schedule, shape.pp, shape.virtual_stages, shape.microbatches, position));
  if (is_new) known->second = count_in_flight(shape, position);
  std::vector<int64_t> flying = known->second;
  const auto most = static_cast<int64_t>(job.micro_batches);
  for (int64_t& count : flying) count = std::min(count, most);
  return flying;
}

}  // namespace

double layer_activation_bytes(const Workload& job, const model::LayerProfile& layer) {
  const Implementation& who = *job.implementation;
  const double scale = job.compute_bytes / 2.0;  // the table's bytes are those of bf16
  const double h = job.model.hidden;
  const model::AttentionProfile& a = layer.attention;
  const auto n = static_cast<double>(a.heads);
  const auto k = static_cast<double>(a.key_value_heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  double cut = 2.0 * (n * qk + k * (qk + v)) + 2.0 * n * v;
  if (job.unfused_attention) cut += 5.0 * n * job.sequence;
  const model::FeedForwardProfile& f = layer.feed_forward;
  const double wide = f.gated ? who.gated_bytes : who.plain_bytes;
  cut += wide * static_cast<double>(f.dense_width + f.shared_width);
  double bytes = who.hidden_bytes * h / job.sequence_parts() + cut / job.tp;
  if (f.experts > 0) {
    const double taken = static_cast<double>(f.experts_per_token) / job.sequence_parts();
    bytes += taken * (wide * static_cast<double>(f.expert_width) + 4.0 * h);
  }
  return bytes * scale;
}

PeakMemory estimate_peak_memory(const Workload& job, int64_t position) {
  PeakMemory peak;
  const LocalParameters mine = position_parameters(job, position);
  peak.states = held_bytes(job, mine.dense, dense_shards(job)) +
                held_bytes(job, mine.experts, expert_shards(job));
  const double T = job.local_tokens();
  const auto owners = schedule::stage_owners(job.schedule, static_cast<int64_t>(job.pp),
                                             static_cast<int64_t>(job.virtual_stages));
  const auto dealt = deal_layers(job);
  const std::vector<int64_t> flying = in_flight(job, position);
  double largest_layer = 0.0;
  for (size_t stage = 0; stage < dealt.stages(); ++stage) {
    if (owners[stage] != position) continue;
    for (size_t group = 0; group < job.model.layers.size(); ++group) {
      const model::LayerProfile& layer = job.model.layers[group].profile;
      peak.activations +=
          T * kept_bytes(job, layer) * dealt.at(stage, group) * static_cast<double>(flying[stage]);
      if (dealt.at(stage, group) == 0.0) continue;
      const LocalParameters unit = layer_parameters(job, layer);
      largest_layer = std::max(largest_layer, unit.dense + unit.experts);
      if (job.recompute != Recompute::kNone) {
        peak.recomputed = std::max(
            peak.recomputed, T * (layer_activation_bytes(job, layer) - kept_bytes(job, layer)));
      }
    }
  }
  const bool last = owners.back() == position;
  if (last) {
    const double words = T * padded_vocabulary(job) / job.tp;
    peak.logits = words * job.implementation->logits_bytes;
    peak.loss = words * job.implementation->logits_gradient_bytes;
  }
  if (job.sharding == Sharding::kParameters) {
    // The layer that computes and the one that is gathered next, the gradients of one and those in
    // flight; and one table of the vocabulary.
    const double table = padded_vocabulary(job) / job.tp * job.model.hidden;
    peak.unsharded = 2.0 * largest_layer * (job.compute_bytes + job.reduce_bytes) +
                     (position == 0 || last ? table * job.compute_bytes : 0.0);
    if (!job.reshards) peak.unsharded += (mine.dense + mine.experts) * job.compute_bytes;
    if (job.defers_reduction) peak.unsharded += (mine.dense + mine.experts) * job.reduce_bytes;
  }
  constexpr double kWorkspace = 96.0 * kMiB;  // cuBLAS and the batch, as Megatron's tests show
  peak.workspace = kWorkspace + job.implementation->mask_bytes * T * job.sequence;
  return peak;
}

PeakMemory worst_peak_memory(const Workload& job) {
  const PeakMemory first = estimate_peak_memory(job, 0);
  if (job.pp <= 1.0) return first;
  const PeakMemory last = estimate_peak_memory(job, static_cast<int64_t>(job.pp) - 1);
  return first.total() > last.total() ? first : last;
}

Fit fit_into(const Workload& job, const PeakMemory& peak, const Gpu& gpu) {
  constexpr double kError = 0.15;  // nine predictions in ten are nearer
  const double process = measured_as(MemoryMetric::kProcess, job, peak);
  if (process <= gpu.memory_bytes * (1.0 - kError)) return Fit::kFits;
  // A tight allocator may live with what is allocated alone.
  return peak.total() * (1.0 - kError) > gpu.memory_bytes ? Fit::kTooLarge : Fit::kMayFit;
}

double predicted_memory(const MeasuredRun& run) {
  const auto last = static_cast<int64_t>(run.job.pp) - 1;
  PeakMemory peak;
  if (run.last_stage) {
    peak = estimate_peak_memory(run.job, last);
  } else if (run.first_stage) {
    peak = estimate_peak_memory(run.job, 0);
  } else {
    peak = worst_peak_memory(run.job);
  }
  return measured_as(run.metric, run.job, peak);
}

double measured_as(MemoryMetric metric, const Workload& job, const PeakMemory& peak) {
  const double reserved = peak.total() * job.implementation->reserved;
  constexpr double kContext = 1.3 * kGiB;        // BigScience measured 1.27 GiB
  constexpr double kCommunicators = 1.5 * kGiB;  // NCCL, several groups
  switch (metric) {
    case MemoryMetric::kAllocated:
      return peak.total();
    case MemoryMetric::kReserved:
      return reserved;
    case MemoryMetric::kProcess:
      return reserved + kContext + kCommunicators;
    case MemoryMetric::kModelStates:
      return peak.states + peak.workspace;
    case MemoryMetric::kHeldActivations:
      return peak.activations + peak.logits;
    case MemoryMetric::kActivationPeak:
      return peak.activations + peak.recomputed + peak.logits + peak.loss;
  }
  return peak.total();
}

}  // namespace am::planner
