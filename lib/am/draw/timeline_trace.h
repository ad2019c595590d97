// Writes a timeline in the Chrome trace format, for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Returns JSON text: one complete event ("ph": "X") per pass, with the rank as pid and tid, and one
// metadata event ("M") per rank with its name. One time unit is shown as a millisecond.
std::string to_chrome_trace(const pipeline::Timeline& timeline);

}  // namespace am::draw
