// One optimizer step as the time and memory models need it: the model's shape, its sharding, the
// batch, and the implementation. Made from a plan (workload_of) or from a measured run.
//
//   const Workload workload = workload_of(plan, config, layout);
//   estimate_step_time(workload, gpu, constants).seconds;
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "am/cluster/implementation.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/pipeline/shape.h"
#include "am/predict/memory/layout_summary.h"

namespace am::predict {

// A number of equal layers.
struct LayerGroup {
  double count = 0.0;
  model::LayerProfile profile;
};

struct ModelShape {
  double hidden = 0.0;
  double vocabulary = 0.0;
  std::vector<LayerGroup> layers;  // per kind, in the order of LayoutSummary
};
ModelShape shape_of(const model::ModelConfig& config);

// Format of matmuls. The memory model counts kFp8 and kFp4 like kBf16.
enum class ComputeFormat { kFp32, kFp16, kBf16, kFp8, kFp4 };

// Sharding of parameters, gradients and optimizer states: the stages of ZeRO.
enum class Sharding { kReplicated = 0, kOptimizer = 1, kGradients = 2, kParameters = 3 };

struct Workload {
  ModelShape model;
  LayoutSummary layout;

  // Ranks along each axis. dp = dp_replicate * dp_shard.
  double pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  double ep = 1;         // reuses the ranks of a stage
  double expert_tp = 1;  // tensor parallelism of experts
  bool sequence_parallel = false;
  Sharding sharding = Sharding::kReplicated;
  // Under kParameters: parameters are gathered again for backward. If false, they are gathered once
  // per micro-batch, or in a pipeline once per round.
  bool reshards = true;
  bool defers_reduction = false;  // gradients are reduced only after the last micro-batch
  // Shards, their gradients and the optimizer are in host memory; pinned memory is copied while the
  // GPU computes.
  bool offloads = false;
  bool pins_memory = true;

  // context.method; empty: ring attention with gradients in the dtype of keys and values, as in
  // other implementations.
  std::string context_method;
  std::string schedule = "1f1b";  // one of pipeline::schedule_names(); used if pp > 1
  std::shared_ptr<const pipeline::Schedule>
      custom_schedule;  // custom schedule, replaces `schedule`
  double virtual_stages = 1;

  double sequence = 0.0;       // positions of one sequence
  double micro_batch = 1.0;    // sequences
  double micro_batches = 1.0;  // per step and rank
  double rounds = 1.0;         // runs of the pipeline's schedule per step

  ComputeFormat format = ComputeFormat::kBf16;
  double storage_bytes = 4.0;  // of one stored parameter or gradient
  double compute_bytes = 2.0;  // of one gathered parameter or hidden state
  double product_bytes = 2.0;  // of one value that a matmul reads or writes, after autocast
  double reduce_bytes = 4.0;   // of one gradient in a reduction
  // Mode of the layers that the layout counts as checkpointed.
  config::ActivationCheckpointing recompute = config::ActivationCheckpointing::kOff;
  bool unfused_attention = false;    // attention scores are stored in memory
  double states = 2.0;               // optimizer states per parameter: 2 for AdamW
  double more_gradient_bytes = 0.0;  // per parameter: float32 accumulation of narrower gradients

  // Ranks per node; 0: as many as the GPU's nodes have.
  double ranks_per_node = 0.0;
  // Site, if its hosts have a factor in the constants; otherwise empty.
  std::string site;

  const cluster::Implementation* implementation = &cluster::automesh_implementation();

  double dp() const { return dp_replicate * dp_shard; }
  double world() const { return pp * dp() * cp * tp; }
  double tokens() const { return sequence * micro_batch; }  // of a micro-batch
  double local_tokens() const { return tokens() / cp; }     // on one rank
  double step_tokens() const { return tokens() * micro_batches * dp(); }
  // Number of tp ranks that share the tokens between layers under sequence parallelism.
  double sequence_parts() const { return sequence_parallel ? tp : 1.0; }
};

// The plan must have passed the rules.
Workload workload_of(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout);

// Fills everything that depends on the plan only: all but the model's shape and the layout's
// summary. `layout` may be a sample's.
void fill_workload(Workload& workload, const config::Plan& plan, const layout::Layout& layout,
                   const mesh::MeshSizes& mesh);

// This rank's part of the vocabulary, with padding for implementations that pad.
double local_vocabulary(const Workload& workload);
// Number of ranks over which a parameter's optimizer states are sharded.
double state_shards(const Workload& workload, const ShardGroup& group);

}  // namespace am::predict
