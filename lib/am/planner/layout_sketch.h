// A layout in sums: how many layers of which kind each pipeline stage has, and how many elements a
// rank holds of them. What predictions of time and memory by formula are made from.
//
//   const LayoutSketch sketch = sketch_of(plan, config, layout);
//   sketch.stages[3].layers[0]; sketch.parameters_of(/*position=*/0).dense;
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/planner/layout.h"

namespace am::planner {

// Elements on one rank after tp and ep have cut them, before data parallelism does.
struct LocalParameters {
  double dense = 0.0;
  double experts = 0.0;  // of routed experts, which may have a group of ranks of their own

  double total() const { return dense + experts; }
  void add(const LocalParameters& other, double times = 1.0) {
    dense += other.dense * times;
    experts += other.experts * times;
  }
};

// The ranks that have the same elements: `replicas` groups of `shards` ranks, over which a strategy
// that shards cuts them. Members stand `stride` ranks apart.
struct ShardGroup {
  double shards = 1.0, replicas = 1.0, stride = 1.0;

  double ranks() const { return shards * replicas; }
};

// One pipeline stage, virtual ones counted. Layers by kind, as model::layer_kinds lists them;
// published runs may have fractions of one.
struct StageSketch {
  int64_t owner = 0;  // index along pp
  std::vector<double> layers;
  std::vector<double> checkpointed;  // of these
  LocalParameters parameters;        // embedding, norm and head included
};

// A stage for each owner (pipeline::stage_owners), without layers yet.
std::vector<StageSketch> empty_stages(const std::vector<int64_t>& owners, size_t kinds);

struct LayoutSketch {
  std::vector<StageSketch> stages;
  std::vector<LocalParameters> of_layer;  // by kind
  double table = 0.0;                     // of the embedding's vocabulary
  ShardGroup dense, experts;
  // Shares of all parameters: those that train, and those that FSDP leaves whole on every rank. The
  // share of layers that backward goes through.
  double trained = 1.0;
  double ignored = 0.0;
  double backward_layers = 1.0;

  int64_t positions() const;  // along pp
  // Of all stages that this index along pp runs, and of the index that has most of them.
  LocalParameters parameters_of(int64_t position) const;
  int64_t fullest_position() const;
};

// The unit of a layer of the layout, or of a sample, that is made as `layer` is. Null: it has none.
const model::Unit* layer_like(const Layout& layout, int layer);

// `layout` may be that of a sample (build_sample_layout), where the plan's globs choose nothing.
LayoutSketch sketch_of(const config::Plan& plan, const model::ModelConfig& config,
                       const Layout& layout);

// The same in two steps, for a search, which has thousands of pipelines to one way of cutting.
struct LocalCuts {
  std::vector<model::LayerKind> kinds;
  std::vector<LocalParameters> of_layer;  // by kind
  LocalParameters first, last;            // outside of layers: on the first stage, on the last
  double table = 0.0;
  bool tied = false;  // the last stage has a copy of it
};
LocalCuts local_cuts(const model::ModelConfig& config, const Layout& layout);
LayoutSketch sketch_stages(const config::Plan& plan, const model::ModelConfig& config,
                           const mesh::MeshSizes& sizes, const LocalCuts& cuts);

}  // namespace am::planner
