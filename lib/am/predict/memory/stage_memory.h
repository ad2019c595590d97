// Memory per rank for the implementation that `[cluster] implementation` names: automesh by
// memory.h's walk through the step, others by the formulas of peak_memory.h.
//
//   const auto stages = memory_of_stages(plan, config, layout);   // the worst rank of each
//   peak_of(stages).components.total();
#pragma once

#include <vector>

#include "am/predict/memory/memory.h"
#include "am/predict/memory/peak_memory.h"

namespace am::predict {

// Returns the worst rank of each pipeline position, by position. The plan must have passed the
// rules.
std::vector<RankMemory> memory_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                         const layout::Layout& layout);
// As memory_of_stages, by formula, for implementations other than automesh.
std::vector<RankMemory> formula_of_stages(const Workload& workload);
RankMemory memory_of_rank(const config::Plan& plan, const model::ModelConfig& config,
                          const layout::Layout& layout, int64_t rank);

// Lower bound of automesh's own peak, as a fraction of the formula's peak.
inline constexpr double kLeastOfFormula = 0.6;

// Returns the rank with the largest peak, the first of equals. `ranks` must not be empty.
const RankMemory& peak_of(const std::vector<RankMemory>& ranks);

// Returns the implementation that the plan names.
const cluster::Implementation& implementation_of(const config::Plan& plan);
bool runs_automesh(const config::Plan& plan);

}  // namespace am::predict
