// Converts the report of a dry run (memory and collectives of one rank) from JSON to text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/term/style.h"

namespace am_run {

// Returns the text of a report. `report` is the JSON object of `am-run --dry-run --json`:
// "predicted_bytes" and "host_bytes" may be missing.
std::string dry_run_text(const am::Json& report, const am::term::Style& style);

}  // namespace am_run
