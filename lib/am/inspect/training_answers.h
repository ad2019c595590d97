// Arguments and answers of `step` and `collectives`, shared by running jobs and by a plan's own
// ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/observe/metrics.h"

namespace am::inspect {

// Returns the number of steps in the first word, 1 without one. Throws Error(kUsage) if it is not a
// number of steps.
int64_t steps_in(const Arguments& arguments);
// Returns the rank in the first word, below `world_size`; nothing for "all" or without a word.
// Throws Error(kUsage) otherwise.
std::optional<int64_t> rank_in(const Arguments& arguments, int64_t world_size);

// Answer of `step`: metrics of the last step, followed by `then`.
Result step_result(const observe::StepMetrics& last, std::string_view then = {});

// Draws a table of RecentCollectives::to_json, with a title that names ranks; `few`: only the
// newest four.
std::string draw_collectives(const std::string& title, const Json& collectives, bool few,
                             const term::Style& style);

}  // namespace am::inspect
