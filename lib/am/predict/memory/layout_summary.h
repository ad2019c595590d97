// Summary of a layout: for each pipeline stage, the number of layers of each kind and the number of
// parameter elements on a rank. The formulas for time (time/) and memory (peak_memory.h) read these
// numbers instead of the layout.
//
//   const LayoutSummary summary = summary_of(plan, config, layout);
//   summary.stages[3].layers[0]; summary.parameters_of(/*position=*/0).dense;
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"

namespace am::predict {

// Number of parameter elements on one rank after tp and ep have sharded them, but before data
// parallelism shards them.
struct LocalParameters {
  double dense = 0.0;
  double experts = 0.0;  // routed experts, which may be sharded over another group of ranks

  double total() const { return dense + experts; }
  void add(const LocalParameters& other, double times = 1.0) {
    dense += other.dense * times;
    experts += other.experts * times;
  }
};

// The ranks that hold the same parameter elements before data parallelism shards them: `replicas`
// groups of `shards` ranks. A sharding strategy such as FSDP shards the elements over the ranks of
// each group. In the job's numbering, consecutive ranks of the ShardGroup are `stride` apart.
struct ShardGroup {
  double shards = 1.0, replicas = 1.0, stride = 1.0;

  double ranks() const { return shards * replicas; }
};

// One pipeline stage; each virtual stage is a separate entry. `checkpointed` may be fractional for
// published runs.
struct StageSummary {
  int64_t owner = 0;                 // index along pp of the ranks that run the stage
  std::vector<double> layers;        // number of layers per kind, as in model::layer_kinds
  std::vector<double> checkpointed;  // number of checkpointed layers per kind
  LocalParameters parameters;        // all parameters of the stage, also those outside of layers
};

// Returns a stage without layers for each entry of `owners`, which is a result of
// pipeline::stage_owners. `kinds`: number of kinds of layers.
std::vector<StageSummary> empty_stages(const std::vector<int64_t>& owners, size_t kinds);

struct LayoutSummary {
  std::vector<StageSummary> stages;
  std::vector<LocalParameters> of_layer;  // parameters of one layer, per kind of layer
  double table = 0.0;                     // elements of the embedding table on one rank
  ShardGroup dense, experts;
  double trained = 1.0;          // fraction of all parameters that is trained
  double ignored = 0.0;          // fraction of all parameters that FSDP ignores
  double quantized = 0.0;        // fraction of all parameters that is stored in NF4
  double backward_layers = 1.0;  // fraction of the layers through which backward runs

  int64_t positions() const;  // number of ranks along pp
  // Returns the parameters of one rank at index `position` along pp, summed over its stages.
  LocalParameters parameters_of(int64_t position) const;
  // Returns the index along pp with the most parameters.
  int64_t fullest_position() const;
};

// Returns the FSDP unit of a decoder layer of the same kind as layer number `layer`, or null if the
// layout contains no layer of this kind. `layout` may be a sample, with one layer of each kind
// (build_sample_layout).
const model::Unit* layer_like(const layout::Layout& layout, int layer);

// Returns the summary of a layout. If the plan has no globs over parameter names, `layout` may be a
// sample, with one layer of each kind (build_sample_layout).
LayoutSummary summary_of(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout);

// A model's parameter elements per rank after tp and ep. Searches combine one LocalCuts with
// thousands of pipelines: local_cuts() and summarize_stages() are the two steps of summary_of(),
// except that the fractions `trained`, `ignored`, `quantized` and `backward_layers` keep their
// defaults.
struct LocalCuts {
  std::vector<model::LayerKind> kinds;
  std::vector<LocalParameters> of_layer;  // parameters of one layer, per kind of layer
  LocalParameters first, last;  // parameters outside the layers, on the first and the last stage
  double table = 0.0;           // elements of the embedding table on one rank
  bool tied = false;            // tied weights: the last of several stages has a copy of the table
};
LocalCuts local_cuts(const model::ModelConfig& config, const layout::Layout& layout);
LayoutSummary summarize_stages(const config::Plan& plan, const model::ModelConfig& config,
                               const mesh::MeshSizes& sizes, const LocalCuts& cuts);

}  // namespace am::predict
