// Formats text and numbers for SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace am::draw {

// Escapes a text for SVG and HTML, between tags or in a quoted attribute, and replaces unprintable
// characters.
std::string escaped(std::string_view text);
// Returns the number with two decimals.
std::string number(double value);

}  // namespace am::draw
