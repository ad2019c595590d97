// Draws horizontal bars and histograms, with eighth-block characters or, in an ASCII locale, '#'.
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

// Draws bars. A bar of `length` columns represents the largest value, or `scale` if that is given
// and larger, for example a budget. Values that are not positive and finite have no bar; all other
// values have at least a sliver.
std::string bars(std::span<const Bar> items, int length, const Style& style, double scale = 0.0);

// Draws one bar, without a newline.
std::string bar(const Bar& item, int length, const Style& style, double scale);

// Draws one line per bin of [low, high]: its lower edge, a bar, the count and its share.
std::string histogram(std::span<const int64_t> counts, double low, double high, int length,
                      const Style& style);

// Draws the counts in one line, one column each, with heights relative to the largest: "▁▃█▂" for
// example, or "_.:|" in an ASCII locale. A zero is a blank.
std::string columns(std::span<const int64_t> counts, const Style& style);

}  // namespace am::term
