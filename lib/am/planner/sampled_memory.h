// The memory of a plan's ranks from the layout of a sample of its layers: to the byte what
// worst_of_stages says, in a time that does not depend on the number of parameters. For searches,
// which ask it of thousands of plans.
//
//   const SampledLayout sampled(plan, config, model::layer_kinds(config), sample, mesh);
//   sampled.worst_of_stages(plan);
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/model/layer_profile.h"
#include "am/planner/layout.h"
#include "am/planner/memory.h"

namespace am::planner {

// Of fsdp2 alone, whose units do not depend on each other; the plan has no globs over parameters'
// names.
class SampledLayout {
 public:
  // `kinds`: the model's layer_kinds. `sample`: build_sample_layout's, on any mesh with these tp
  // and ep. `config` must outlive this.
  SampledLayout(const config::Plan& plan, const model::ModelConfig& config,
                const std::vector<model::LayerKind>& kinds, const Layout& sample,
                const mesh::MeshSizes& sizes);

  // Of plans that differ from the constructor's in batches, checkpointing and when gradients are
  // reduced.
  std::vector<RankMemory> worst_of_stages(const config::Plan& plan) const;

 private:
  const model::ModelConfig& config_;
  std::vector<int64_t> owners_;       // by stage: index along pp
  std::vector<int> stage_of_;         // by layer
  std::vector<size_t> kind_of_;       // by layer
  std::vector<bool> layer_reshards_;  // by layer
  Layout one_;                        // one layer of each kind, all on one rank
};

}  // namespace am::planner
