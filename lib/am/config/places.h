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
  // `text` must outlive this object. `file`: name of the file, for diagnostics.
  Places(std::string_view text, std::string file);

  // Returns the location of the character at byte offset `at`. Columns count characters. In lines
  // of more than 300 bytes, columns count bytes, and Span::source is empty. This is faster for
  // generated files with thousands of values on one line.
  Span span(size_t at, int length = 1) const;

 private:
  size_t line_of(size_t at) const;

  std::string_view text_;
  std::string file_;
  std::vector<size_t> lines_;  // offset of each line's first character
};

}  // namespace am::config
