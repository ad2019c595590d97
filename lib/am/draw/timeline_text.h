// Draws the timeline of a pipeline as text for a terminal. Each rank has one line; time runs from
// left to right.
//
//   rank 0  F0 F1 ····· B0─── F2 B1─── ·· B2───
//   rank 1  ·· F0 B0─── F1 B1─── F2 B2───
//
// F is a forward pass and B a backward pass. If a schedule divides backward passes, I is the part
// that computes the gradient of the input, and W the part that computes the gradients of the
// weights. The number behind the letter is the micro-batch. If ranks have several stages, a number
// in front of the letter is the stage, for example "2F0".
#pragma once

#include <string>

#include "am/pipeline/timeline.h"
#include "am/term/style.h"

namespace am::draw {

struct DrawLimits {
  size_t ranks = 64;  // maximum number of drawn ranks, at least 2; ranks in the middle are omitted
};

// Returns one line per drawn rank, and one line for all omitted ranks together. If the style has
// colours, there is one colour for forward passes, one for passes that compute only weight
// gradients, and one for other backward passes. Dots are time in which a rank waits. If the
// timeline is wider than the style's width, its end is cut off, and an additional last line states
// which part of the time is drawn.
std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits = {});

}  // namespace am::draw
