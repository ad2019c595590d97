// Maps an offset in a text to the location that a diagnostic shows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

class Places {
 public:
  Places(std::string_view text, std::string file);

  // Returns the location of the character at an offset. For very long lines, which are usually
  // generated, the source line is omitted and columns count bytes, so that locating thousands of
  // values on one line takes little time.
  Span span(size_t at, int length = 1) const;

 private:
  size_t line_of(size_t at) const;

  std::string_view text_;
  std::string file_;
  std::vector<size_t> lines_;  // offset of each line's first character
};

}  // namespace am::config
