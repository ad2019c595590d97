// From an offset in a text to the place that a diagnostic names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::exchange {

class Places {
 public:
  Places(std::string_view text, std::string file);

  // The character at this offset. Of very long lines (machines write those) the source is not
  // kept, and columns count bytes: thousands of values on one line stay cheap.
  Span span(size_t at, int length = 1) const;

 private:
  size_t line_of(size_t at) const;

  std::string_view text_;
  std::string file_;
  std::vector<size_t> lines_;  // where each begins
};

}  // namespace am::exchange
