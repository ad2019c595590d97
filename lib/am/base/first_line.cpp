#include "am/base/first_line.h"

#include <regex>

#include "am/base/json.h"

namespace am {

std::string first_line(const std::exception& error) {
  std::string text = json_reason(error);
  text = text.substr(0, text.find('\n'));  // c10's stack trace begins on the next line
  // Some messages, for example "[/pytorch/.../buffer.cc:78] Timed out", begin with a location in
  // the C++ source. This location does not help users and is removed.
  static const std::regex kSourcePlace(R"(^\[[^\]\s]+\.(cc|cpp|h|hpp):\d+\]\s*)");
  return std::regex_replace(text, kSourcePlace, "");
}

}  // namespace am
