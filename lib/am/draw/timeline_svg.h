// Draws a timeline as a self-contained SVG file without scripts, fonts or links, legible on light
// and dark pages. Each pass shows its name and times as a tooltip.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// Maximum number of drawn passes. Of a timeline with more passes only the beginning is drawn, and
// the picture says so.
inline constexpr size_t kMostDrawnPasses = 100000;

// Returns the SVG file as text. `title`: any text; it stands above the picture.
std::string timeline_svg(const pipeline::Timeline& timeline, const std::string& title);

}  // namespace am::draw
