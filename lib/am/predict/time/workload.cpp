#include "am/predict/time/workload.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "am/base/number.h"
#include "am/config/batch.h"
#include "am/config/optimizer.h"
#include "am/layout/precision.h"
#include "am/layout/stages.h"
#include "am/layout/units.h"
#include "am/predict/memory/activations.h"

namespace am::predict {
namespace {

Sharding sharding_of(const config::DistributedConfig& strategy) {
  if (std::holds_alternative<config::FSDP2Config>(strategy)) return Sharding::kParameters;
  if (const auto* megatron = std::get_if<config::MegatronConfig>(&strategy)) {
    return static_cast<Sharding>(megatron->zero);
  }
  const auto* fsdp = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return fsdp != nullptr ? static_cast<Sharding>(fsdp->zero_dp_strategy) : Sharding::kReplicated;
}

void fill_fsdp2(Workload& workload, const config::FSDP2Config& fsdp2) {
  if (const auto& reshard = fsdp2.reshard_after_forward) {
    const bool* whole = std::get_if<bool>(&*reshard);
    workload.reshards = whole == nullptr || *whole;
  }
  workload.pins_memory = !fsdp2.offload_policy || fsdp2.offload_policy->pin_memory;
}

MegatronStep step_of(const config::MegatronConfig& megatron) {
  MegatronStep step;
  step.own_groups = megatron.zero > 0;
  step.overlaps_reduction = megatron.overlap_grad_reduce;
  step.overlaps_gather =
      megatron.zero > 0 ? megatron.overlap_param_gather : megatron.overlap_grad_reduce;
  step.may_stay_partly_full = true;
  step.recomputed = config::recomputed_modules(megatron.recompute_modules);
  if (megatron.recompute_method == "uniform" && megatron.recompute_num_layers > 1) {
    step.recomputed_together = as_double(megatron.recompute_num_layers);
  }
  step.offloaded_activations = megatron.activation_offload_fraction;
  return step;
}

// Sets the members that depend on the strategy megatron. The precision and the implementation must
// be set.
void fill_megatron(Workload& workload, const config::MegatronConfig& megatron, int64_t etp) {
  workload.megatron = step_of(megatron);
  workload.expert_tp = as_double(etp);
  if (megatron.params_dtype == "float16" && !megatron.grad_reduce_in_fp32) {
    workload.format = ComputeFormat::kFp16;
  }
  workload.more_gradient_bytes = workload.reduce_bytes - workload.implementation->gradient_bytes;
}

// Returns the number of optimizer states per parameter, averaged over the trained parameters.
double states_of(const config::OptimizerSection& optimizer, const layout::Layout& layout) {
  const auto plain = as_double(config::state_names(optimizer, false).size());
  const auto orthogonalized = as_double(config::state_names(optimizer, true).size());
  double trained = 0.0;
  double states = 0.0;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    if (!parameter.trainable) continue;
    const auto elements = as_double(numel(parameter.shape));
    trained += elements;
    states += elements * (parameter.orthogonalized ? orthogonalized : plain);
  }
  return trained > 0.0 ? states / trained : 0.0;
}

}  // namespace

ModelShape shape_of(const model::ModelConfig& config) {
  ModelShape shape;
  shape.hidden = as_double(config.hidden_size);
  shape.vocabulary = as_double(config.vocab_size);
  for (const model::LayerKind& kind : model::layer_kinds(config)) {
    shape.layers.push_back({static_cast<double>(kind.layers.size()), kind.profile});
  }
  return shape;
}

Workload workload_of(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout) {
  Workload workload;
  workload.model = shape_of(config);
  workload.layout = summary_of(plan, config, layout);
  fill_workload(workload, plan, layout, layout.mesh.sizes());
  return workload;
}

void fill_workload(Workload& workload, const config::Plan& plan, const layout::Layout& layout,
                   const mesh::MeshSizes& mesh) {
  workload.pp = as_double(mesh.pp);
  workload.dp_replicate = as_double(mesh.dp_replicate);
  workload.dp_shard = as_double(mesh.dp_shard);
  workload.cp = as_double(mesh.cp);
  workload.tp = as_double(mesh.tp);
  workload.ep = as_double(mesh.ep);
  workload.schedule = plan.pipeline.schedule;
  if (mesh.pp > 1) workload.custom_schedule = layout::pipeline_shape(plan.pipeline, mesh.pp).own;
  workload.virtual_stages = mesh.pp > 1 ? as_double(plan.pipeline.virtual_stages) : 1.0;
  workload.sequence = as_double(plan.train.seq_len);
  workload.micro_batch = as_double(plan.train.micro_batch_size);
  const config::BatchShape batch = config::batch_shape(plan, mesh.dp());
  workload.micro_batches = as_double(batch.micro_batches);
  workload.rounds = as_double(batch.micro_batches) / as_double(batch.in_round);
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  workload.storage_bytes = as_double(layout::dtype_size(precision.storage));
  workload.compute_bytes = as_double(layout::dtype_size(precision.compute));
  workload.product_bytes = as_double(layout::dtype_size(precision.products));
  workload.reduce_bytes = as_double(layout::dtype_size(precision.reduce));
  workload.format = compute_format(plan);
  workload.narrow_bytes = config::uses_transformer_engine(plan.strategy)
                              ? config::spec_of(config::fp8_of(plan.strategy)).bytes
                              : 0.0;
  workload.states = states_of(plan.optimizer, layout);
  workload.sharding = sharding_of(plan.strategy);
  workload.sequence_parallel = mesh.tp > 1 && layout.tp_plan.sequence_parallel;
  workload.defers_reduction =
      batch.micro_batches > 1 && config::defers_gradient_sync(plan.strategy);
  workload.reshards = true;
  workload.recompute = config::checkpointing_of(plan.strategy);
  workload.offloads = layout::offloads_to_host(plan.strategy);
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    workload.reshards = mesh.pp == 1;  // default of reshard_after_forward (layout/units.h)
    fill_fsdp2(workload, *fsdp2);
  }
  workload.ranks_per_node = as_double(layout::ranks_of_node(plan, mesh.world_size()));
  if (const auto* named = cluster::find_implementation(plan.cluster.implementation)) {
    workload.implementation = named;
    workload.unfused_attention = named->unfused_attention;
    if (named == &cluster::automesh_implementation()) workload.context_method = plan.context.method;
  }
  workload.megatron = {};
  workload.expert_tp = 1.0;
  workload.more_gradient_bytes = 0.0;
  if (const auto* megatron = std::get_if<config::MegatronConfig>(&plan.strategy)) {
    fill_megatron(workload, *megatron, mesh.etp);
  }
}

ComputeFormat compute_format(const config::Plan& plan) {
  const config::Fp8Recipe recipe = config::fp8_of(plan.strategy);
  if (recipe == config::Fp8Recipe::kNvfp4) return ComputeFormat::kFp4;
  if (recipe != config::Fp8Recipe::kNone) return ComputeFormat::kFp8;
  const bool wide = layout::dtype_size(layout::resolve_precision(plan).products) == 4;
  return wide ? ComputeFormat::kFp32 : ComputeFormat::kBf16;
}

bool has_experts(const Workload& workload) {
  const auto& layers = workload.model.layers;
  return std::any_of(layers.begin(), layers.end(), [](const LayerGroup& group) {
    return group.profile.feed_forward.experts > 0;
  });
}

double local_vocabulary(const Workload& workload) {
  if (!workload.implementation->pads_vocabulary) return workload.model.vocabulary / workload.tp;
  constexpr double kUnit = 128.0;
  return std::ceil(workload.model.vocabulary / (kUnit * workload.tp)) * kUnit;
}

double state_shards(const Workload& workload, const ShardGroup& group) {
  return workload.sharding == Sharding::kReplicated ? 1.0 : group.shards;
}

}  // namespace am::predict
