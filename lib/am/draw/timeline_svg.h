// Draws a pipeline's timeline as a self-contained SVG file without scripts, fonts or links, legible
// on light and dark pages. Each pass (forward or backward of a micro-batch) has a tooltip with its
// name and times.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Maximum number of drawn passes. If a timeline has more, only its beginning is drawn, and a text
// in the picture states this.
inline constexpr size_t kMostDrawnPasses = 100000;

// Returns the text of an SVG file. `title`: any text, drawn above the timeline.
std::string timeline_svg(const pipeline::Timeline& timeline, const std::string& title);

}  // namespace am::draw
