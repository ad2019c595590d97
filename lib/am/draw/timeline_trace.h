// Converts a timeline of a pipeline to the Chrome trace format, which Perfetto and chrome://tracing
// show.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Returns JSON text. Each pass is a complete event ("ph": "X") whose pid and tid are the rank. Each
// rank has a metadata event ("M") with its name. One unit of time in the timeline becomes a
// millisecond.
std::string to_chrome_trace(const pipeline::Timeline& timeline);

}  // namespace am::draw
