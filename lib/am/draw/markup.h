// Text and numbers in SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace am::draw {

// Printable, and safe between tags and in a quoted attribute.
std::string escaped(std::string_view text);
// Two decimals.
std::string number(double value);

}  // namespace am::draw
