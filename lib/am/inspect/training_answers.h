// Parses the arguments and formats the answers of the commands `step` and `collectives`. Used by
// sessions of running jobs and by sessions of ranks that am-repl started.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/observe/metrics.h"

namespace am::inspect {

// Returns the number of steps in the first word, or 1 if there is no word. Throws Error(kUsage) if
// the word is not an integer from 1 to 1,000,000,000.
int64_t steps_in(const Arguments& arguments);

// Returns the answer of the command `step`: the metrics of the last step, followed by the text
// `then`.
Result step_result(const observe::StepMetrics& last, std::string_view then = {});

// Returns a table of `collectives`, a JSON list from RecentCollectives::to_json(). `title` names
// the ranks that issued them. If `few` is set, the table contains only the four newest collectives.
std::string draw_collectives(const std::string& title, const Json& collectives, bool few,
                             const term::Style& style);

}  // namespace am::inspect
