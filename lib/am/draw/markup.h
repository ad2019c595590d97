// Formats text and numbers for SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace am::draw {

// Returns printable text that is safe between tags and in a quoted attribute.
std::string escaped(std::string_view text);
// Formats with two decimals.
std::string number(double value);

}  // namespace am::draw
