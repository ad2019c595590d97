// Draws a timeline as text for a terminal: one line per rank, time to the right.
//
//   rank 0  F0 F1 ····· B0─── F2 B1─── ·· B2───
//   rank 1  ·· F0 B0─── F1 B1─── F2 B2───
//
// The number is the micro-batch; with several stages per rank it is preceded by the stage ("2F0").
#pragma once

#include <string>

#include "am/pipeline/timeline.h"
#include "am/term/style.h"

namespace am::draw {

struct DrawLimits {
  size_t ranks = 64;  // beyond this number, ranks in the middle are omitted
};

// Each kind of pass has its colour if the style has colours; waiting is drawn as dots. The picture
// is cut at the style's width, and a last line states how much was cut.
std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits = {});

}  // namespace am::draw
