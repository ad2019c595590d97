// Draws a timeline of a pipeline as text for a terminal. It has one line per rank; time runs from
// left to right.
//
//   rank 0  F0 F1 ····· B0─── F2 B1─── ·· B2───
//   rank 1  ·· F0 B0─── F1 B1─── F2 B2───
//
// F is a forward and B a backward of the micro-batch with the number behind it. If ranks have
// several stages, the stage stands in front, for example "2F0".
#pragma once

#include <string>

#include "am/pipeline/timeline.h"
#include "am/term/style.h"

namespace am::draw {

struct DrawLimits {
  size_t ranks = 64;  // maximum number of drawn ranks; ranks in the middle are omitted
};

// Returns the picture. Each kind of pass has its own colour if the style has colours; dots are time
// in which a rank waits. If the picture is wider than the style's width, it is cut there, and a
// last line states which part of the time is drawn.
std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits = {});

}  // namespace am::draw
