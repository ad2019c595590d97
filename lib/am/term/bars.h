// Horizontal bars and histograms, with eighth-block characters or, in an ASCII locale, '#'.
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
  std::string text;  // behind the bar; right-aligned
  Role role = Role::kAccent;
};

// The largest value fills `length` columns, or `scale` does when it is given and larger (a budget).
// What is not a positive finite number has no bar; any other has at least a sliver.
std::string bars(std::span<const Bar> items, int length, const Style& style, double scale = 0.0);

// One of them alone, without a newline.
std::string bar(const Bar& item, int length, const Style& style, double scale);

// One line for each bin of [low, high]: its lower edge, a bar, the count and its share.
std::string histogram(std::span<const int64_t> counts, double low, double high, int length,
                      const Style& style);

// The same numbers in one line, a column each as high as its share of the largest: "▁▃█▂"; "_.:|"
// in an ASCII locale. What is zero has a blank.
std::string columns(std::span<const int64_t> counts, const Style& style);

}  // namespace am::term
