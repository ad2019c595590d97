#include "am/inspect/layers.h"

#include <algorithm>

namespace am::inspect {

std::string layer_of(std::string_view name) {
  for (size_t first = 0; first < name.size();) {
    const size_t dot = std::min(name.find('.', first), name.size());
    const std::string_view segment = name.substr(first, dot - first);
    const bool is_last = dot == name.size();
    if (!is_last && !segment.empty() &&
        segment.find_first_not_of("0123456789") == std::string_view::npos) {
      return std::string(name.substr(0, dot));
    }
    first = dot + 1;
  }
  return std::string(name.substr(0, name.rfind('.')));
}

}  // namespace am::inspect
