// A timeline as lines of text for a terminal, one a rank, time to the right.
//
//   rank 0  F0 F1 ····· B0─── F2 B1─── ·· B2───
//   rank 1  ·· F0 B0─── F1 B1─── F2 B2───
//
// The number is the micro-batch; with several stages a rank the stage stands in front ("2F0").
#pragma once

#include <string>

#include "am/pipeline/timeline.h"
#include "am/term/style.h"

namespace am::draw {

struct DrawLimits {
  size_t ranks = 64;  // the middle of more ranks is left out
};

// Kinds have colours where the style has them; waiting is dots. A picture that is wider than the
// style's width is cut there, and a last line says how much of it was left out.
std::string timeline_text(const pipeline::Timeline& timeline, const term::Style& style,
                          const DrawLimits& limits = {});

}  // namespace am::draw
