// Memory per rank of whoever runs the plan, as `[cluster] implementation` says: automesh by
// memory.h's walk through the step, any other by the formulas of peak_memory.h.
//
//   const auto stages = memory_of_stages(plan, config, layout);   // the worst rank of each
//   fits_into(plan, stages.front(), gpu);
#pragma once

#include <vector>

#include "am/planner/cost/peak_memory.h"
#include "am/planner/memory.h"

namespace am::planner {

// The plan must have passed the rules. The worst rank of each pipeline position, by position.
std::vector<RankMemory> memory_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                         const Layout& layout);
// The same by formula, for an implementation other than automesh.
std::vector<RankMemory> formula_of_stages(const Workload& workload);
RankMemory memory_of_rank(const config::Plan& plan, const model::ModelConfig& config,
                          const Layout& layout, int64_t rank);

// Of a peak by formula, the part that automesh's own step takes at least.
inline constexpr double kLeastOfFormula = 0.6;

// The fullest, the first of equals. There must be one.
const RankMemory& fullest(const std::vector<RankMemory>& ranks);

// Who that is.
const Implementation& implementation_of(const config::Plan& plan);
bool runs_automesh(const config::Plan& plan);

}  // namespace am::planner
