// Predicts the memory of a rank for the implementation that the plan's `[cluster] implementation`
// names. For automesh, the prediction simulates a step (memory.h); for all other implementations,
// it evaluates the formulas of peak_memory.h.
//
//   const auto stages = memory_of_stages(plan, config, layout);   // one rank per index along pp
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
// Returns, for each index along pp, the memory of the first rank with this index, by formula. All
// other ranks with this index have the same memory.
std::vector<RankMemory> formula_of_stages(const Workload& workload);
// Returns the memory of `rank`, predicted as memory_of_stages() does.
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
