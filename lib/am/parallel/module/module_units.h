// Finds the units and parameters of a torch::nn module, and their layout on a mesh.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/mesh/layout.h"
#include "am/model/tp_plan.h"
#include "am/nn/layers.h"
#include "am/parallel/module/parallel_layers.h"
#include "am/parallel/module/sharded.h"

namespace torch::nn {
class Module;
}

namespace am::parallel {

struct ModuleUnits {
  // The units' modules, in the order of the module tree. If the whole module is a Sharded<M>, it
  // comes first.
  std::vector<ModuleUnit*> modules;
  std::vector<nn::ParameterPtr> parameters;  // each value is a tensor of the torch module
  layout::Layout layout;  // layout of `parameters`, with one unit per element of `modules`
  // Layers that the tensor-parallel plan shards, and their styles. Style::tp is still null.
  std::vector<std::pair<ParallelLayer*, ParallelLayer::Style>> layers;
};

// Returns the units of `module` under the plan's strategy. Changes each torch::nn::Sequential: a
// wrapper, which is a unit, replaces every element that has parameters and is not a Sharded<M>.
// Throws Error(kUsage) and Error(kPlan) about the parameters and the tensor-parallel plan, as
// described at ShardedModule's constructor.
ModuleUnits find_module_units(const std::shared_ptr<torch::nn::Module>& module,
                              const config::Plan& plan, const model::TpPlan& tp_plan,
                              const mesh::MeshLayout& mesh);

}  // namespace am::parallel
