// A timeline in the Chrome trace format, for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// One complete event ("ph": "X") a pass, pid and tid its rank, and one metadata event ("M") a rank
// that names it. One unit of the timeline is shown as a millisecond. JSON text.
std::string to_chrome_trace(const pipeline::Timeline& timeline);

}  // namespace am::draw
