// Converts the timeline of a pipeline to the Chrome trace format, for Perfetto and
// chrome://tracing.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Returns the trace as JSON text. Each pass is a complete event ("ph": "X") whose pid and tid are
// the rank. Each rank has a metadata event ("ph": "M") with the rank's name, for example "rank 0".
// One unit of the timeline's time counts as a millisecond.
std::string to_chrome_trace(const pipeline::Timeline& timeline);

}  // namespace am::draw
