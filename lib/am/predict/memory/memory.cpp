#include "am/predict/memory/memory.h"

#include <limits>

#include "am/config/batch.h"
#include "am/layout/stages.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {

int64_t MemoryComponents::total() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t total = 0;
  for (const int64_t part :
       {parameters, gradients, optimizer, activations, logits, unsharded, communication, other}) {
    total = part > kMost - total ? kMost : total + part;
  }
  return total;
}

bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes) {
  if (config::batch_shape(plan, sizes.dp()).micro_batches == 1) return false;
  return defers_gradient_sync(plan.strategy);
}

RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const layout::Layout& layout, int64_t rank, Routing routing) {
  ActivationContext context = activation_context(plan, layout);
  context.skewed = routing == Routing::kSkewed;
  const int64_t position = layout.mesh.index(rank, "pp");
  WalkedRank who{.rank = rank, .stage = position, .in_layout = rank, .owners = layout.stage_owners};
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const auto lists = layout::executed_lists(layout::pipeline_shape(plan, sizes.pp, sizes.dp()));
  if (lists) who.list = &lists->at(static_cast<size_t>(position));
  return walk_step(plan, config, layout, context,
                   measure_units(plan, config, layout, rank, context), who);
}

std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const layout::Layout& layout) {
  std::vector<RankMemory> worst;
  for (int64_t pp = 0; pp < layout.mesh.sizes().pp; ++pp) {
    worst.push_back(estimate_memory(plan, config, layout, layout.mesh.rank({pp, 0, 0, 0, 0})));
  }
  return worst;
}

}  // namespace am::predict
