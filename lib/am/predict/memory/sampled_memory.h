// Computes the memory of a plan's ranks from a sample: a layout with one layer of each kind. The
// result equals that of worst_of_stages() (memory.h) to the byte, but needs no layout of all
// parameters. Searches use this class, because they need the memory of thousands of plans.
//
//   const SampledLayout sampled(plan, config, model::layer_kinds(config), sample, mesh);
//   sampled.worst_of_stages(plan);
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/predict/memory/memory.h"

namespace am::predict {

// Supports only the strategy fsdp2, whose FSDP units are independent of each other, and only plans
// in which all layers of a kind are equal (SearchSpace::needs_whole_layouts() is false).
class SampledLayout {
 public:
  // `kinds`: result of model::layer_kinds(config). `sample`: result of build_sample_layout on any
  // mesh with the tp and ep of `sizes`. `config` must outlive the object.
  SampledLayout(const config::Plan& plan, const model::ModelConfig& config,
                const std::vector<model::LayerKind>& kinds, const layout::Layout& sample,
                const mesh::MeshSizes& sizes);

  // Returns, for each index along pp, the memory of the rank with the largest peak. `plan` may
  // differ from the plan of the constructor only in batch sizes, checkpointing, FP8 recipe and
  // deferral of the gradient reduction.
  std::vector<RankMemory> worst_of_stages(const config::Plan& plan) const;

 private:
  const model::ModelConfig& config_;
  std::vector<int64_t> owners_;       // index along pp of the ranks that run each stage, [stage]
  std::vector<int> stage_of_;         // a layer's pipeline stage, [layer]
  std::vector<size_t> kind_of_;       // a layer's index in layer_kinds, [layer]
  std::vector<bool> layer_reshards_;  // whether a layer is freed after forward, [layer]
  layout::Layout one_;                // layout of one layer of each kind, all in one stage
};

}  // namespace am::predict
