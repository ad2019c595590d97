// Summary of a layout: layers of each kind per pipeline stage, and elements that a rank holds of
// them. Input of the formulas for time and memory.
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

// Number of elements on one rank after tp and ep, before data parallelism.
struct LocalParameters {
  double dense = 0.0;
  double experts = 0.0;  // routed experts, which may be sharded over another group of ranks

  double total() const { return dense + experts; }
  void add(const LocalParameters& other, double times = 1.0) {
    dense += other.dense * times;
    experts += other.experts * times;
  }
};

// Ranks that hold the same elements after tp and ep: `replicas` groups of `shards` ranks. A
// sharding strategy cuts the elements over the `shards` ranks. Members are `stride` ranks apart.
struct ShardGroup {
  double shards = 1.0, replicas = 1.0, stride = 1.0;

  double ranks() const { return shards * replicas; }
};

// One pipeline stage, counting virtual stages. Layer counts are per kind, as in model::layer_kinds;
// for published runs they may be fractional.
struct StageSummary {
  int64_t owner = 0;  // index along pp that runs the stage
  std::vector<double> layers;
  std::vector<double> checkpointed;  // those of `layers` that are checkpointed
  LocalParameters parameters;        // including embedding, norm and head
};

// Returns one stage without layers per entry of `owners` (pipeline::stage_owners).
std::vector<StageSummary> empty_stages(const std::vector<int64_t>& owners, size_t kinds);

struct LayoutSummary {
  std::vector<StageSummary> stages;
  std::vector<LocalParameters> of_layer;  // per kind
  double table = 0.0;                     // elements of the embedding table
  ShardGroup dense, experts;
  // Fractions: of all parameters that are trained, of all parameters that FSDP ignores, and of the
  // layers that backward runs through.
  double trained = 1.0;
  double ignored = 0.0;
  double backward_layers = 1.0;

  int64_t positions() const;  // number of ranks along pp
  // Sum over the stages that this pp index runs, and the pp index with the largest sum.
  LocalParameters parameters_of(int64_t position) const;
  int64_t fullest_position() const;
};

// Returns a unit of the layout, or of a sample, whose layer is of the same kind as `layer`. Null if
// there is none.
const model::Unit* layer_like(const layout::Layout& layout, int layer);

// `layout` may be a sample (build_sample_layout) if the plan has no globs over parameter names.
LayoutSummary summary_of(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout);

// summary_of in two steps, for searches that combine each set of cuts with thousands of pipelines.
struct LocalCuts {
  std::vector<model::LayerKind> kinds;
  std::vector<LocalParameters> of_layer;  // per kind
  LocalParameters first, last;  // parameters outside the layers, on the first and the last stage
  double table = 0.0;
  bool tied = false;  // the last stage has a copy of the table
};
LocalCuts local_cuts(const model::ModelConfig& config, const layout::Layout& layout);
LayoutSummary summarize_stages(const config::Plan& plan, const model::ModelConfig& config,
                               const mesh::MeshSizes& sizes, const LocalCuts& cuts);

}  // namespace am::predict
