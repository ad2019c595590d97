// Draws horizontal bars and histograms with block characters in steps of an eighth of a column, or
// in an ASCII locale with '#'.
//
//   parameters   ██████████████▌          7.48 GiB
//   activations  ███▊                     1.95 GiB
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "am/term/style.h"

namespace am::term {

struct Bar {
  std::string label;
  double value = 0.0;
  std::string text;  // text to the right of the bar, right-aligned
  Role role = Role::kAccent;
};

// Draws one line per bar. A bar of `length` columns represents the largest value, or `scale` (for
// example a budget) if `scale` is larger. Values that are not positive and finite have no bar; each
// other bar is at least an eighth of a column long ('#': one column). In a window that is too
// narrow, shortens the bars, then the labels.
std::string bars(std::span<const Bar> items, int length, const Style& style, double scale = 0.0);

// Draws one bar, without a newline.
std::string bar(const Bar& item, int length, const Style& style, double scale);

// Draws a histogram of equal bins over [low, high], one line per bin: the bin's lower edge, a bar,
// the bin's count, and the count's percentage of the sum of all counts.
std::string histogram(std::span<const int64_t> counts, double low, double high, int length,
                      const Style& style);

// Draws the counts in one line, one character per count, with heights relative to the largest
// count: for example "▁▃█▂", or "_.|_" in an ASCII locale. A count of 0 is a blank.
std::string columns(std::span<const int64_t> counts, const Style& style);

}  // namespace am::term
