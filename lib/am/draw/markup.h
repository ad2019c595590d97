// Formats text and numbers for SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace am::draw {

// Returns `text` escaped for SVG and HTML, between tags or in an attribute in double quotes. Tabs
// become spaces, other control characters '?'.
std::string escaped(std::string_view text);
// Returns the number with two decimals.
std::string number(double value);

}  // namespace am::draw
