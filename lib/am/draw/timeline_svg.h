// Draws a pipeline's timeline as an SVG file without scripts, fonts or links. The picture is
// legible on light and dark pages. Each pass (the forward or backward of one micro-batch on one
// stage) has a tooltip with the pass's name, start and end.
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
