// Formats text and numbers for SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace am::draw {

// Returns the text in a form that is printable and can stand between tags and in a quoted
// attribute.
std::string escaped(std::string_view text);
// Returns the number with two decimals.
std::string number(double value);

}  // namespace am::draw
