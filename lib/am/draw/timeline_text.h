// Draws the timeline of a pipeline as text for a terminal. Each rank has one line; time runs from
// left to right.
//
//   rank 0  F0 F1 ····· B0─── F2 B1─── ·· B2───
//   rank 1  ·· F0 B0─── F1 B1─── F2 B2───
//
// F is a forward and B a backward pass; the number behind it is the micro-batch. If ranks have
// several stages, the number in front is the stage, for example "2F0".
#pragma once

#include <string>

#include "am/pipeline/timeline.h"
#include "am/term/style.h"

namespace am::draw {

struct DrawLimits {
  size_t ranks = 64;  // maximum number of drawn ranks; ranks in the middle are omitted
};

// Returns the text. If the style has colours, forward passes, passes that compute only weight
// gradients, and all other backward passes have different colours. Dots are time in which a rank
// waits. A timeline that is wider than the style's width is truncated, and a last line states which
// part of the time is drawn.
std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits = {});

}  // namespace am::draw
