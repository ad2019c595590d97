// A timeline in the Chrome trace format, for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "am/schedule/timeline.h"

namespace am::schedule {

// One complete event ("ph": "X") a pass, pid and tid its rank, and one metadata event ("M") a rank
// that names it. One unit of the timeline is shown as a millisecond. JSON text.
std::string to_chrome_trace(const Timeline& timeline);

}  // namespace am::schedule
