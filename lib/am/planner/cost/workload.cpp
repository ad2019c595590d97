#include "am/planner/cost/workload.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "am/base/number.h"
#include "am/config/batch.h"
#include "am/planner/activations.h"
#include "am/planner/dtype_size.h"
#include "am/planner/precision.h"
#include "am/planner/units.h"

namespace am::planner {
namespace {

Sharding sharding_of(const config::DistributedConfig& strategy) {
  if (std::holds_alternative<config::FSDP2Config>(strategy)) return Sharding::kParameters;
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return megatron != nullptr ? static_cast<Sharding>(megatron->zero_dp_strategy)
                             : Sharding::kReplicated;
}

void fill_fsdp2(Workload& job, const config::FSDP2Config& fsdp2) {
  if (const auto& reshard = fsdp2.reshard_after_forward) {
    const bool* whole = std::get_if<bool>(&*reshard);
    job.reshards = whole == nullptr || *whole;
  }
  job.pins_memory = !fsdp2.offload_policy || fsdp2.offload_policy->pin_memory;
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
                     const Layout& layout) {
  Workload job;
  job.model = shape_of(config);
  job.layout = sketch_of(plan, config, layout);
  fill_workload(job, plan, layout, layout.mesh.sizes());
  return job;
}

void fill_workload(Workload& job, const config::Plan& plan, const Layout& layout,
                   const mesh::MeshSizes& mesh) {
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
  const config::BatchShape batch = config::batch_shape(plan, mesh.dp());
  job.micro_batches = as_double(batch.micro_batches);
  job.rounds = as_double(batch.micro_batches) / as_double(batch.in_round);
  const StepPrecision precision = resolve_precision(plan);
  job.storage_bytes = as_double(dtype_size(precision.storage));
  job.compute_bytes = as_double(dtype_size(precision.compute));
  job.product_bytes = as_double(dtype_size(precision.products));
  job.reduce_bytes = as_double(dtype_size(precision.reduce));
  job.format = job.product_bytes == 4.0 ? ComputeFormat::kFp32 : ComputeFormat::kBf16;
  job.sharding = sharding_of(plan.strategy);
  job.sequence_parallel = mesh.tp > 1 && layout.tp_plan.sequence_parallel;
  job.defers_reduction = batch.micro_batches > 1 && config::defers_gradient_sync(plan.strategy);
  job.reshards = true;
  job.recompute = checkpointing_of(plan);
  job.offloads = offloads_to_host(plan.strategy);
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) fill_fsdp2(job, *fsdp2);
  job.ranks_per_node = as_double(ranks_of_node(plan, mesh.world_size()));
  if (const auto* named = find_implementation(plan.cluster.implementation)) {
    job.implementation = named;
    job.unfused_attention = named->unfused_attention;
  }
}

int64_t ranks_of_node(const config::Plan& plan, int64_t world_size) {
  const int64_t most = plan.mesh.ranks_per_node;
  const int64_t nodes = plan.cluster.nodes;
  return nodes > 0 ? std::min(most, (world_size + nodes - 1) / nodes) : most;
}

double local_vocabulary(const Workload& job) {
  if (!job.implementation->pads_vocabulary) return job.model.vocabulary / job.tp;
  constexpr double kUnit = 128.0;
  return std::ceil(job.model.vocabulary / (kUnit * job.tp)) * kUnit;
}

double state_shards(const Workload& job, const ShardGroup& group) {
  return job.sharding == Sharding::kReplicated ? 1.0 : group.shards;
}

}  // namespace am::planner
