// A timeline as an SVG file of its own: no scripts, no fonts, no links; legible on light and on
// dark pages. Every pass names itself and its times when the mouse rests on it.
#pragma once

#include <string>

#include "am/pipeline/timeline.h"

namespace am::draw {

// As many passes are drawn; a larger timeline is cut in time, and the picture says so.
inline constexpr size_t kMostDrawnPasses = 100000;

// `title`: a line above the picture, any text.
std::string timeline_svg(const pipeline::Timeline& timeline, const std::string& title);

}  // namespace am::draw
