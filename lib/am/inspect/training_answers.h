// What `step` and `collectives` are asked and say, of a job that runs and of a plan's own ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/observe/metrics.h"

namespace am::inspect {

// The first word: how many steps, 1 without it. Throws Error(kUsage) for no number of steps.
int64_t steps_in(const Arguments& arguments);
// The first word: a rank of so many; nothing without it. Throws Error(kUsage) for no rank.
std::optional<int64_t> rank_in(const Arguments& arguments, int64_t world_size);

// After the last one of some steps; `then`, what comes of it, stands behind them.
Result step_result(const observe::StepMetrics& last, std::string_view then = {});

// RecentCollectives::to_json of one rank; `few`: the newest alone.
std::string draw_collectives(int64_t rank, const Json& collectives, bool few,
                             const term::Style& style);

}  // namespace am::inspect
