// Draws a timeline as a self-contained SVG file without scripts, fonts or links, legible on light
// and dark pages. Each pass shows its name and times as a tooltip.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Maximum number of drawn passes. A larger timeline is cut in time, and the picture states it.
inline constexpr size_t kMostDrawnPasses = 100000;

// `title`: a line above the picture, any text.
std::string timeline_svg(const pipeline::Timeline& timeline, const std::string& title);

}  // namespace am::draw
