#include "am/base/first_line.h"

#include <regex>

#include "am/base/json.h"

namespace am {

std::string first_line(const std::exception& error) {
  std::string text = json_reason(error);
  text = text.substr(0, text.find('\n'));  // c10's stack trace begins on the next line
  // Removes c10d's source locations, which do not help users, as in "[/pytorch/.../buffer.cc:78]
  // Timed out".
  static const std::regex kSourcePlace(R"(^\[[^\]\s]+\.(cc|cpp|h|hpp):\d+\]\s*)");
  return std::regex_replace(text, kSourcePlace, "");
}

}  // namespace am
