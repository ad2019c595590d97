// One optimizer step as the time and memory models see it: the model's shape, how it is cut, how
// much data, and who runs it. A plan becomes one (workload_of), and so does a measured run.
//
//   const Workload job = workload_of(plan, config, mesh, found);
//   estimate_step_time(job, gpu, constants).seconds;
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/planner/cost/implementation.h"

namespace am::planner {

// Equal layers, counted.
struct LayerGroup {
  double count = 0.0;
  model::LayerProfile profile;
};

struct ModelShape {
  double hidden = 0.0;
  double vocabulary = 0.0;
  double learned_positions = 0.0;  // rows of a position table, 0: none
  bool tied_head = false;
  bool biases = false;  // on every projection
  std::vector<LayerGroup> layers;

  double layer_count() const;
};
ModelShape shape_of(const model::ModelConfig& config);

// Of matrix products; memory is that of the two-byte formats.
enum class ComputeFormat { kFp32, kFp16, kBf16, kFp8, kFp4 };
enum class Recompute { kNone, kSelective, kAlternate, kFull };

// Who holds parameters, gradients and optimizer states: the stages of ZeRO.
enum class Sharding { kReplicated = 0, kOptimizer = 1, kGradients = 2, kParameters = 3 };

struct Workload {
  ModelShape model;

  // Ranks along each axis. dp = dp_replicate * dp_shard.
  double pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  double ep = 1;         // re-uses ranks of a stage
  double expert_tp = 1;  // an expert's own tensor parallelism
  bool sequence_parallel = false;
  Sharding sharding = Sharding::kReplicated;
  bool reshards = true;           // kParameters: gathered again for backward
  bool defers_reduction = false;  // gradients are reduced after the last micro-batch only

  std::string schedule = "1f1b";  // a name of schedule::schedule_names(); with pp > 1
  double virtual_stages = 1;

  double sequence = 0.0;       // positions of one sequence
  double micro_batch = 1.0;    // sequences
  double micro_batches = 1.0;  // of one step and rank

  ComputeFormat format = ComputeFormat::kBf16;
  double storage_bytes = 4.0;  // of one parameter and one gradient as they are kept
  double compute_bytes = 2.0;  // of one gathered parameter and one activation
  double reduce_bytes = 4.0;   // of one gradient on the wire
  Recompute recompute = Recompute::kNone;
  bool unfused_attention = false;    // scores in memory
  double more_gradient_bytes = 0.0;  // a parameter: float32 accumulation beside a narrow gradient
  // Where parameters are frozen: the shares of parameters that train, and of layers that backward
  // goes through.
  double trained = 1.0;
  double backward_layers = 1.0;
  double ignored = 0.0;  // share of parameters that FSDP leaves whole on every data-parallel rank

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
                     const mesh::MeshSizes& mesh);

// The same without the model, whose shape stays as it is.
void fill_workload(Workload& job, const config::Plan& plan, const mesh::MeshSizes& mesh);

// Parameters by what cuts them; numbers of elements of one rank of pipeline position `stage` before
// data-parallel sharding.
struct LocalParameters {
  double dense = 0.0;    // over dp * cp
  double experts = 0.0;  // over what is left of the stage's ranks: dp * cp * tp / (ep * expert_tp)
};
// Of one layer, of the embedding table, and of the head (0 where it is tied) with the last norm.
LocalParameters layer_parameters(const Workload& job, const model::LayerProfile& layer);
double padded_vocabulary(const Workload& job);
double embedding_parameters(const Workload& job);
double head_parameters(const Workload& job);
// How many ranks share the states of the dense parameters, and of the experts.
double dense_shards(const Workload& job);
double expert_shards(const Workload& job);

// Of all that the pipeline position `position` (an index along pp) holds; a tied head on another
// position than the embedding is a copy of it.
LocalParameters position_parameters(const Workload& job, int64_t position);

// The layers of each of pp * virtual_stages stages, by group. Layers are dealt
// evenly; where they do not divide but would with the embedding and the head as a layer each, those
// count as one (Megatron's account_for_embedding_in_pipeline_split).
class DealtLayers {
 public:
  DealtLayers(size_t stages, size_t groups)
      : groups_(groups), stages_(stages), counts_(stages * groups, 0.0) {}

  size_t stages() const { return stages_; }
  double& at(size_t stage, size_t group) { return counts_[stage * groups_ + group]; }
  double at(size_t stage, size_t group) const { return counts_[stage * groups_ + group]; }

 private:
  size_t groups_, stages_;
  std::vector<double> counts_;
};
DealtLayers deal_layers(const Workload& job);

}  // namespace am::planner
