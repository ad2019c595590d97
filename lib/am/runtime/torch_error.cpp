#include "am/runtime/torch_error.h"

#include <c10/util/Exception.h>

#include <regex>

namespace am::runtime {

std::string first_line(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  // "[/pytorch/.../buffer.cc:78] Timed out": where in c10d is nothing to the user.
  static const std::regex kSourcePlace(R"(^\[[^\]\s]+\.(cc|cpp|h|hpp):\d+\]\s*)");
  return std::regex_replace(text, kSourcePlace, "");
}

}  // namespace am::runtime
