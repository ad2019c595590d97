#include "am/planner/cost/workload.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "am/model/inventory.h"
#include "am/planner/dtype_size.h"
#include "am/planner/memory.h"
#include "am/planner/parameter_choice.h"
#include "am/planner/precision.h"
#include "am/schedule/shape.h"

namespace am::planner {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

// What a strategy's configuration means for the models.
struct StrategyReader {
  Workload& job;

  void operator()(const config::FSDP2Config& fsdp2) const {
    job.sharding = Sharding::kParameters;
    job.sequence_parallel = fsdp2.sequence_parallel;
    job.defers_reduction = fsdp2.defer_fsdp_grad_sync && job.micro_batches > 1.0;
    if (const auto& reshard = fsdp2.reshard_after_forward) {
      const bool* whole = std::get_if<bool>(&*reshard);
      job.reshards = whole == nullptr || *whole;
    }
    switch (fsdp2.activation_checkpointing) {
      case config::ActivationCheckpointing::kOff:
        break;
      case config::ActivationCheckpointing::kMlp:  // most of a layer's products
      case config::ActivationCheckpointing::kFull:
        job.recompute = Recompute::kFull;
        break;
      case config::ActivationCheckpointing::kSelective:
        job.recompute = Recompute::kSelective;
        break;
    }
  }
  void operator()(const config::MegatronFSDPConfig& megatron) const {
    job.sharding = static_cast<Sharding>(megatron.zero_dp_strategy);
    job.defers_reduction = job.micro_batches > 1.0;
    if (megatron.activation_checkpointing) job.recompute = Recompute::kFull;
  }
  void operator()(const config::DDPConfig& ddp) const {
    if (ddp.activation_checkpointing) job.recompute = Recompute::kFull;
  }
};

// Backward ends with the first layer that has something to train.
void count_choices(Workload& job, const config::Plan& plan, const model::ModelConfig& config) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  const bool ignores = fsdp2 != nullptr && !fsdp2->ignored_params.empty();
  if (plan.model.freeze_params.empty() && !ignores) return;
  double all = 0.0;
  double trained = 0.0;
  double ignored = 0.0;
  const model::ParameterSpec* first = nullptr;  // that trains, in forward order
  const model::Inventory inventory = model::build_inventory(config);
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    const double elements = as_double(numel(parameter.shape));
    all += elements;
    if (is_ignored(plan, parameter.name)) ignored += elements;
    if (is_frozen(plan, parameter.name)) continue;
    trained += elements;
    if (first == nullptr) first = &parameter;
  }
  job.ignored = ignored / all;
  job.trained = trained / all;
  if (first == nullptr || first->module_kind == model::ModuleKind::kEmbedding) return;
  const double frozen_layers =
      as_double(first->layer >= 0 ? first->layer : config.num_hidden_layers);
  job.backward_layers = 1.0 - frozen_layers / as_double(config.num_hidden_layers);
}

}  // namespace

double ModelShape::layer_count() const {
  double count = 0.0;
  for (const LayerGroup& group : layers) count += group.count;
  return count;
}

ModelShape shape_of(const model::ModelConfig& config) {
  ModelShape shape;
  shape.hidden = as_double(config.hidden_size);
  shape.vocabulary = as_double(config.vocab_size);
  shape.tied_head = config.tie_word_embeddings;
  shape.biases = config.mlp_bias;
  for (const model::LayerKind& kind : model::layer_kinds(config)) {
    shape.layers.push_back({static_cast<double>(kind.layers.size()), kind.profile});
  }
  return shape;
}

Workload workload_of(const config::Plan& plan, const model::ModelConfig& config,
                     const mesh::MeshSizes& mesh) {
  Workload job;
  job.model = shape_of(config);
  fill_workload(job, plan, mesh);
  count_choices(job, plan, config);
  return job;
}

void fill_workload(Workload& job, const config::Plan& plan, const mesh::MeshSizes& mesh) {
  job.pp = as_double(mesh.pp);
  job.dp_replicate = as_double(mesh.dp_replicate);
  job.dp_shard = as_double(mesh.dp_shard);
  job.cp = as_double(mesh.cp);
  job.tp = as_double(mesh.tp);
  job.ep = as_double(mesh.ep);
  job.schedule = plan.pipeline.schedule;
  job.virtual_stages = mesh.pp > 1 ? as_double(plan.pipeline.virtual_stages) : 1.0;
  job.sequence = as_double(plan.train.seq_len);
  job.micro_batch = as_double(plan.train.micro_batch_size);
  job.micro_batches = as_double(micro_batches(plan, mesh));
  const StepPrecision precision = resolve_precision(plan);
  job.storage_bytes = as_double(dtype_size(precision.storage));
  job.compute_bytes = as_double(dtype_size(precision.compute));
  job.reduce_bytes = as_double(dtype_size(precision.reduce));
  job.format = job.compute_bytes == 4.0 ? ComputeFormat::kFp32 : ComputeFormat::kBf16;
  job.sharding = Sharding::kReplicated;
  job.sequence_parallel = job.defers_reduction = false;
  job.reshards = true;
  job.recompute = Recompute::kNone;
  std::visit(StrategyReader{job}, plan.strategy);
  if (const auto* named = find_implementation(plan.cluster.implementation)) {
    job.implementation = named;
    job.unfused_attention = named->unfused_attention;
  }
}

LocalParameters layer_parameters(const Workload& job, const model::LayerProfile& layer) {
  const double h = job.model.hidden;
  const model::AttentionProfile& a = layer.attention;
  const double n = as_double(a.heads);
  const double qk = as_double(a.qk_head_dim);
  const double v = as_double(a.v_head_dim);
  double cut = n * v * h;  // over tp
  double whole = as_double(layer.hidden_norms) * h;
  if (a.kv_lora_rank > 0) {
    const double q_rank = as_double(a.q_lora_rank);
    const double kv_rank = as_double(a.kv_lora_rank);
    const double rope = as_double(a.rope_head_dim);
    whole += h * (q_rank + kv_rank + rope) + q_rank + kv_rank;
    cut += (q_rank > 0.0 ? q_rank : h) * n * qk + kv_rank * n * (qk - rope + v);
  } else {
    cut += h * (n * qk + as_double(a.key_value_heads) * (qk + v));
  }
  const model::FeedForwardProfile& f = layer.feed_forward;
  const double matrices = f.gated ? 3.0 : 2.0;
  cut += matrices * h * as_double(f.dense_width + f.shared_width);
  LocalParameters local;
  if (f.experts > 0) {
    local.experts =
        as_double(f.experts) * matrices * h * as_double(f.expert_width) / (job.ep * job.expert_tp);
    whole += h * as_double(f.experts);
  }
  if (job.model.biases) {
    cut +=
        (n + 2.0 * as_double(a.key_value_heads)) * qk + (matrices - 1.0) * as_double(f.dense_width);
    whole += 4.0 * h;
  }
  local.dense = cut / job.tp + whole;
  return local;
}

double padded_vocabulary(const Workload& job) {
  if (!job.implementation->pads_vocabulary) return job.model.vocabulary;
  const double unit = 128.0 * job.tp;
  return std::ceil(job.model.vocabulary / unit) * unit;
}

double embedding_parameters(const Workload& job) {
  return (padded_vocabulary(job) / job.tp + job.model.learned_positions) * job.model.hidden;
}

double head_parameters(const Workload& job) {
  const double norm = job.model.hidden;
  return job.model.tied_head ? norm : norm + padded_vocabulary(job) / job.tp * job.model.hidden;
}

double dense_shards(const Workload& job) {
  switch (job.sharding) {
    case Sharding::kReplicated:
      return 1.0;
    case Sharding::kOptimizer:
    case Sharding::kGradients:
    case Sharding::kParameters:
      return job.dp_shard * job.cp;
  }
  return 1.0;
}

double expert_shards(const Workload& job) {
  if (job.sharding == Sharding::kReplicated) return 1.0;
  return std::max(1.0, job.dp_shard * job.cp * job.tp / (job.ep * job.expert_tp));
}

LocalParameters position_parameters(const Workload& job, int64_t position) {
  LocalParameters sum;
  const auto owners = schedule::stage_owners(job.schedule, static_cast<int64_t>(job.pp),
                                             static_cast<int64_t>(job.virtual_stages));
  const auto dealt = deal_layers(job);
  for (size_t stage = 0; stage < dealt.stages(); ++stage) {
    if (owners[stage] != position) continue;
    for (size_t group = 0; group < job.model.layers.size(); ++group) {
      const LocalParameters one = layer_parameters(job, job.model.layers[group].profile);
      sum.dense += one.dense * dealt.at(stage, group);
      sum.experts += one.experts * dealt.at(stage, group);
    }
  }
  const bool first = owners.front() == position;
  const bool last = owners.back() == position;
  if (first) sum.dense += embedding_parameters(job);
  if (last) sum.dense += head_parameters(job);
  if (last && !first && job.model.tied_head) {
    sum.dense += padded_vocabulary(job) / job.tp * job.model.hidden;
  }
  return sum;
}

DealtLayers deal_layers(const Workload& job) {
  const auto stages = static_cast<size_t>(job.pp * job.virtual_stages);
  const double layers = job.model.layer_count();
  const auto count = static_cast<double>(stages);
  const bool divides = std::fmod(layers, count) == 0.0;
  const bool with_ends = !divides && std::fmod(layers + 2.0, count) == 0.0 && stages > 1;
  std::vector<double> shares(stages, std::floor(layers / count));
  if (with_ends) {
    shares.assign(stages, (layers + 2.0) / count);
    shares.front() -= 1.0;
    shares.back() -= 1.0;
  } else {
    const auto left_over = static_cast<size_t>(std::fmod(layers, count));
    for (size_t i = 0; i < left_over; ++i) shares[i] += 1.0;
  }
  // Groups in order: DeepSeek's dense layers come first. A pattern that alternates is spread.
  DealtLayers dealt(stages, job.model.layers.size());
  const bool in_order = job.model.layers.size() == 2 &&
                        job.model.layers.front().profile.feed_forward.experts == 0 &&
                        job.model.layers.back().profile.feed_forward.experts > 0;
  double first_left = in_order ? job.model.layers.front().count : 0.0;
  for (size_t stage = 0; stage < stages; ++stage) {
    if (in_order) {
      dealt.at(stage, 0) = std::min(first_left, shares[stage]);
      dealt.at(stage, 1) = shares[stage] - dealt.at(stage, 0);
      first_left -= dealt.at(stage, 0);
      continue;
    }
    for (size_t group = 0; group < job.model.layers.size(); ++group) {
      dealt.at(stage, group) = shares[stage] * job.model.layers[group].count / layers;
    }
  }
  return dealt;
}

}  // namespace am::planner
