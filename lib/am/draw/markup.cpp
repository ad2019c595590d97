#include "am/draw/markup.h"

#include "am/base/units.h"
#include "am/term/printable.h"

namespace am::draw {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : term::printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value) { return format_fixed(value, 2); }

}  // namespace am::draw
