// Calls a function with each line of a JSON Lines file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "am/base/text.h"

namespace am::data {

// Calls visit(number, line) with each line that is not blank. Lines are numbered from 1.
template <typename Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!trim(line).empty()) visit(number, line);
  }
}

}  // namespace am::data
