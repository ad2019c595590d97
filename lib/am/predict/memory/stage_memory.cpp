#include "am/predict/memory/stage_memory.h"

#include <algorithm>
#include <cmath>

namespace am::predict {
namespace {

int64_t whole(double bytes) {
  return std::llround(std::min(bytes, static_cast<double>(kMostBytes)));
}

// Returns the memory of `rank` by formula. `position`: the rank's index along pp. All ranks with
// this index have equal memory.
RankMemory formula(const Workload& workload, int64_t position, int64_t rank) {
  const PeakMemory peak = estimate_peak_memory(workload, position);
  RankMemory memory;
  memory.rank = rank;
  memory.stage = position;
  memory.moment = "backward";
  memory.components.parameters = whole(peak.parameters);
  memory.components.gradients = whole(peak.gradients);
  memory.components.optimizer = whole(peak.optimizer);
  memory.components.activations = whole(peak.activations + peak.recomputed);
  memory.components.logits = whole(peak.logits + peak.loss);
  memory.components.unsharded = whole(peak.unsharded);
  memory.components.other = whole(peak.workspace);
  memory.components.host = whole(peak.host);
  return memory;
}

}  // namespace

const cluster::Implementation& implementation_of(const config::Plan& plan) {
  const cluster::Implementation* who = cluster::find_implementation(plan.cluster.implementation);
  return who != nullptr ? *who : cluster::automesh_implementation();
}

bool runs_automesh(const config::Plan& plan) {
  return &implementation_of(plan) == &cluster::automesh_implementation();
}

const RankMemory& peak_of(const std::vector<RankMemory>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.components.total() < b.components.total();
  });
}

std::vector<RankMemory> memory_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                         const layout::Layout& layout) {
  if (runs_automesh(plan)) return worst_of_stages(plan, config, layout);
  return formula_of_stages(workload_of(plan, config, layout));
}

std::vector<RankMemory> formula_of_stages(const Workload& workload) {
  const auto positions = static_cast<int64_t>(workload.pp);
  // Number of ranks with the same index along pp, the outermost axis of the mesh. Their numbers are
  // consecutive.
  const int64_t in_each = static_cast<int64_t>(workload.world()) / positions;
  std::vector<RankMemory> stages;
  for (int64_t position = 0; position < positions; ++position) {
    stages.push_back(formula(workload, position, position * in_each));
  }
  return stages;
}

RankMemory memory_of_rank(const config::Plan& plan, const model::ModelConfig& config,
                          const layout::Layout& layout, int64_t rank) {
  if (runs_automesh(plan)) return estimate_memory(plan, config, layout, rank);
  const Workload workload = workload_of(plan, config, layout);
  return formula(workload, layout.mesh.coordinate(rank)[0], rank);
}

}  // namespace am::predict
