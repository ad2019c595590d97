// Description of one optimizer step, which the formulas for time and memory read: the model's
// shape, its sharding, the batch, and the implementation. A Workload is made from a plan
// (workload_of) or from a row of measured runs (measured_runs.h).
//
//   const Workload workload = workload_of(plan, config, layout);
//   estimate_step_time(workload, gpu, constants).seconds;
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/cluster/implementation.h"
#include "am/config/plan.h"
#include "am/config/recomputation.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/pipeline/shape.h"
#include "am/predict/memory/layout_summary.h"

namespace am::predict {

// A group of equal layers.
struct LayerGroup {
  double count = 0.0;
  model::LayerProfile profile;
};

struct ModelShape {
  double hidden = 0.0;
  double vocabulary = 0.0;
  std::vector<LayerGroup> layers;  // one group per kind of layer, in the order of LayoutSummary
};
ModelShape shape_of(const model::ModelConfig& config);

// Number format in which matmuls compute. The memory formulas treat kFp8 and kFp4 like kBf16,
// except for what Workload::narrow_bytes changes.
enum class ComputeFormat { kFp32, kFp16, kBf16, kFp8, kFp4 };

// Sharding of parameters, gradients and optimizer states. The values are the ZeRO levels.
enum class Sharding { kReplicated = 0, kOptimizer = 1, kGradients = 2, kParameters = 3 };

// Properties of a step that only the strategy megatron has. The defaults describe all other
// strategies.
struct MegatronStep {
  // Whether each instance of the distributed optimizer gathers its parameters and reduces its
  // gradients by itself, over `dp_shard` * `cp` ranks; reduced gradients are then summed over the
  // instances. False: all data-parallel ranks gather and reduce together, even if optimizer states
  // are sharded over fewer ranks.
  bool own_groups = false;
  // Whether reductions of gradients and, with sharded optimizer states, gathers of updated
  // parameters overlap with computation.
  bool overlaps_reduction = true, overlaps_gather = true;
  bool may_stay_partly_full = false;  // 1f1b may run with fewer micro-batches than stages
  // Modules that kSelective recomputes. Absent: kSelective is torchtitan's mode, which recomputes
  // the outputs of every second matmul and the element-wise operators.
  std::optional<config::RecomputedModules> recomputed;
  // Number of consecutive layers that keep one input and are recomputed together by kFull.
  double recomputed_together = 1.0;
  // Fraction of the saved activations that is in host memory between forward and backward.
  double offloaded_activations = 0.0;
};

struct Workload {
  ModelShape model;
  LayoutSummary layout;

  // Number of ranks along each axis.
  double pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  double ep = 1;         // ranks of expert parallelism; the other axes include them already
  double expert_tp = 1;  // ranks over which tensor parallelism shards each expert
  bool sequence_parallel = false;
  Sharding sharding = Sharding::kReplicated;
  // Whether parameters are freed after forward and gathered again for backward; used if `sharding`
  // is kParameters. If false, parameters are gathered once per micro-batch or, in a pipeline, once
  // per round.
  bool reshards = true;
  bool defers_reduction = false;  // gradients are reduced only after the last micro-batch
  bool offloads = false;    // sharded parameters, gradients and optimizer states are in host memory
  bool pins_memory = true;  // offloading uses pinned memory, so copies overlap with computation

  // The plan's context.method if automesh runs the step. Empty for other implementations, which use
  // ring attention whose gradients have the dtype of keys and values.
  std::string context_method;
  std::string schedule = "1f1b";  // one of pipeline::schedule_names(); used if pp > 1
  // Schedule from the user's CSV file, used instead of `schedule`; null: there is none.
  std::shared_ptr<const pipeline::Schedule> custom_schedule;
  double virtual_stages = 1;  // number of stages per rank of the pipeline

  double sequence = 0.0;       // positions of one sequence
  double micro_batch = 1.0;    // number of sequences in a micro-batch
  double micro_batches = 1.0;  // number of micro-batches per step and rank
  double rounds = 1.0;         // number of runs of the pipeline's schedule per step

  ComputeFormat format = ComputeFormat::kBf16;
  double storage_bytes = 4.0;  // bytes of one stored parameter or gradient
  double compute_bytes = 2.0;  // bytes of one gathered parameter or one element of a hidden state
  double product_bytes = 2.0;  // bytes of one element that a matmul reads or writes, after autocast
  double reduce_bytes = 4.0;   // bytes of one gradient in a reduction
  // Bytes of one element of an operand in FP8 or FP4, if Transformer Engine keeps such operands for
  // backward; 0: products keep operands of `product_bytes`.
  double narrow_bytes = 0.0;
  // Checkpointing mode of the layers that `layout` counts as checkpointed.
  config::ActivationCheckpointing recompute = config::ActivationCheckpointing::kOff;
  MegatronStep megatron;
  bool unfused_attention = false;  // attention scores are stored in memory
  double states = 2.0;             // optimizer states per parameter, for example 2 for AdamW
  // Bytes per parameter that gradients need in addition to Implementation::gradient_bytes, for
  // example because they are accumulated in float32. Below 0 if gradients need fewer bytes.
  double more_gradient_bytes = 0.0;

  double ranks_per_node = 0.0;  // number of ranks per node; 0: unknown
  // Site (cluster) of a published run, for its factor in CostConstants::sites; may be empty.
  std::string site;

  const cluster::Implementation* implementation = &cluster::automesh_implementation();

  double dp() const { return dp_replicate * dp_shard; }
  double world() const { return pp * dp() * cp * tp; }
  double tokens() const { return sequence * micro_batch; }  // tokens of a micro-batch
  double local_tokens() const { return tokens() / cp; }     // tokens of a micro-batch on one rank
  double step_tokens() const { return tokens() * micro_batches * dp(); }
  // Returns the number of tp ranks that share the tokens between layers under sequence parallelism;
  // 1 without it.
  double sequence_parts() const { return sequence_parallel ? tp : 1.0; }
};

// Returns the workload of a plan, which must have passed the rules.
Workload workload_of(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout);

// Sets the members that follow from the plan and the mesh, except `model` and `layout`. The
// argument `layout` may be a sample (build_sample_layout).
void fill_workload(Workload& workload, const config::Plan& plan, const layout::Layout& layout,
                   const mesh::MeshSizes& mesh);

// Returns whether the model has a layer with experts.
bool has_experts(const Workload& workload);

// Returns the number format in which the plan's layers compute their matmuls.
ComputeFormat compute_format(const config::Plan& plan);

// Returns the number of rows of the embedding table on one rank, with padding for implementations
// that pad the vocabulary.
double local_vocabulary(const Workload& workload);
// Returns the number of ranks over which the optimizer states of the group's parameters are
// sharded.
double state_shards(const Workload& workload, const ShardGroup& group);

}  // namespace am::predict
