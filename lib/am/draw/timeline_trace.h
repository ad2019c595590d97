// Converts the timeline of a pipeline to the Chrome trace format, for Perfetto and
// chrome://tracing.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Returns a JSON text. Each pass becomes a complete event ("ph": "X"), whose pid and tid are the
// rank, and each rank gets a metadata event ("M") with its name. One unit of the timeline's time
// counts as a millisecond.
std::string to_chrome_trace(const pipeline::Timeline& timeline);

}  // namespace am::draw
