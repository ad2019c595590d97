// Memory of a plan's ranks, computed from a layout with one layer of each kind. Equal to
// worst_of_stages to the byte, in a time independent of the number of parameters. Used by searches,
// which need it for thousands of plans.
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

// Supports only fsdp2, whose units are independent of each other, and only plans without globs over
// parameter names.
class SampledLayout {
 public:
  // `kinds`: the model's layer_kinds. `sample`: from build_sample_layout on any mesh with these tp
  // and ep. `config` must outlive the object.
  SampledLayout(const config::Plan& plan, const model::ModelConfig& config,
                const std::vector<model::LayerKind>& kinds, const layout::Layout& sample,
                const mesh::MeshSizes& sizes);

  // `plan` may differ from the constructor's in batch sizes, checkpointing and deferral of the
  // gradient reduction.
  std::vector<RankMemory> worst_of_stages(const config::Plan& plan) const;

 private:
  const model::ModelConfig& config_;
  std::vector<int64_t> owners_;       // per stage: index along pp
  std::vector<int> stage_of_;         // per layer
  std::vector<size_t> kind_of_;       // per layer
  std::vector<bool> layer_reshards_;  // per layer
  layout::Layout one_;                // one layer of each kind, all on one rank
};

}  // namespace am::predict
