// Predicted memory per rank for the implementation that the plan's `[cluster] implementation`
// names. Memory of automesh is computed by simulating a step (memory.h), memory of other
// implementations by the formulas of peak_memory.h.
//
//   const auto stages = memory_of_stages(plan, config, layout);   // per pp index, the worst rank
//   peak_of(stages).components.total();
#pragma once

#include <vector>

#include "am/predict/memory/memory.h"
#include "am/predict/memory/peak_memory.h"

namespace am::predict {

// Returns for each index along pp the memory of the rank with the largest peak. The plan must be
// valid (checked by the rules).
std::vector<RankMemory> memory_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                         const layout::Layout& layout);
// Returns the result of memory_of_stages for an implementation other than automesh, by formula.
std::vector<RankMemory> formula_of_stages(const Workload& workload);
RankMemory memory_of_rank(const config::Plan& plan, const model::ModelConfig& config,
                          const layout::Layout& layout, int64_t rank);

// Lower bound of the peak that memory.h predicts, as a fraction of the peak that peak_memory.h
// predicts for the same plan. Before a search simulates a step of a layout, it drops the layout
// only if even this lower bound does not fit into the GPU's memory.
inline constexpr double kLeastOfFormula = 0.6;

// Returns the memory of the rank with the largest peak (the first one of equal peaks). `ranks` must
// not be empty.
const RankMemory& peak_of(const std::vector<RankMemory>& ranks);

// Returns the implementation that the plan names; automesh if the name is unknown.
const cluster::Implementation& implementation_of(const config::Plan& plan);
bool runs_automesh(const config::Plan& plan);

}  // namespace am::predict
