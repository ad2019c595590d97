// One optimizer step as the time and memory models see it: the model's shape, how it is cut, how
// much data, and who runs it. A plan becomes one (workload_of), and so does a measured run.
//
//   const Workload workload = workload_of(plan, config, layout);
//   estimate_step_time(workload, gpu, constants).seconds;
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/pipeline/shape.h"
#include "am/planner/cost/implementation.h"
#include "am/planner/layout_sketch.h"

namespace am::planner {

// Equal layers, counted.
struct LayerGroup {
  double count = 0.0;
  model::LayerProfile profile;
};

struct ModelShape {
  double hidden = 0.0;
  double vocabulary = 0.0;
  std::vector<LayerGroup> layers;  // by kind, as LayoutSketch counts them
};
ModelShape shape_of(const model::ModelConfig& config);

// Of matrix products; memory is that of the two-byte formats.
enum class ComputeFormat { kFp32, kFp16, kBf16, kFp8, kFp4 };

// Who holds parameters, gradients and optimizer states: the stages of ZeRO.
enum class Sharding { kReplicated = 0, kOptimizer = 1, kGradients = 2, kParameters = 3 };

struct Workload {
  ModelShape model;
  LayoutSketch layout;

  // Ranks along each axis. dp = dp_replicate * dp_shard.
  double pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  double ep = 1;         // re-uses ranks of a stage
  double expert_tp = 1;  // an expert's own tensor parallelism
  bool sequence_parallel = false;
  Sharding sharding = Sharding::kReplicated;
  bool reshards = true;           // kParameters: gathered again for backward; else, in a pipeline,
                                  // once for a round
  bool defers_reduction = false;  // gradients are reduced after the last micro-batch only
  // Shards, their gradients and the optimizer are in the host's memory; pinned memory is copied
  // while the GPU computes.
  bool offloads = false;
  bool pins_memory = true;

  // context.method; empty: keys and values, and gradients as wide as they, as others have them.
  std::string context_method;
  std::string schedule = "1f1b";  // a name of pipeline::schedule_names(); with pp > 1
  std::shared_ptr<const pipeline::Schedule> own_schedule;  // in the place of a named one
  double virtual_stages = 1;

  double sequence = 0.0;       // positions of one sequence
  double micro_batch = 1.0;    // sequences
  double micro_batches = 1.0;  // of one step and rank
  double rounds = 1.0;         // of the pipeline's schedule, over these

  ComputeFormat format = ComputeFormat::kBf16;
  double storage_bytes = 4.0;  // of one parameter and one gradient as they are kept
  double compute_bytes = 2.0;  // of one gathered parameter and one hidden state
  double product_bytes = 2.0;  // of what matrix products take and give; under autocast its dtype
  double reduce_bytes = 4.0;   // of one gradient on the wire
  // Of the layers that the layout counts as checkpointed.
  config::ActivationCheckpointing recompute = config::ActivationCheckpointing::kOff;
  bool unfused_attention = false;    // scores in memory
  double states = 2.0;               // tensors of the optimizer by parameter: AdamW's two
  double more_gradient_bytes = 0.0;  // a parameter: float32 accumulation beside a narrow gradient

  // Ranks of one node; 0: as many as the GPU's nodes have.
  double ranks_per_node = 0.0;
  // Where it runs, when its hosts have a factor of their own; empty: anywhere.
  std::string site;

  const Implementation* implementation = &automesh_implementation();

  double dp() const { return dp_replicate * dp_shard; }
  double world() const { return pp * dp() * cp * tp; }
  double tokens() const { return sequence * micro_batch; }  // of a micro-batch
  double local_tokens() const { return tokens() / cp; }     // on one rank
  double step_tokens() const { return tokens() * micro_batches * dp(); }
  // Between layers, with sequence parallelism, each tp rank holds a part of the tokens.
  double sequence_parts() const { return sequence_parallel ? tp : 1.0; }
};

// The plan must have passed the rules.
Workload workload_of(const config::Plan& plan, const model::ModelConfig& config,
                     const Layout& layout);

// What of it is the plan's alone: all but the model's shape and the layout's sketch. `layout` may
// be that of a sample.
void fill_workload(Workload& workload, const config::Plan& plan, const Layout& layout,
                   const mesh::MeshSizes& mesh);

// Ranks of one node of the plan's: mesh.ranks_per_node, or fewer where cluster.nodes spreads them.
int64_t ranks_of_node(const config::Plan& plan, int64_t world_size);

// The rank's part of the vocabulary, with the padding of implementations that pad.
double local_vocabulary(const Workload& workload);
// Ranks that share a parameter's optimizer states.
double state_shards(const Workload& workload, const ShardGroup& group);

}  // namespace am::planner
