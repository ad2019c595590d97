// c10's exceptions carry a C++ stack trace in their text; people want the first sentence.
#pragma once

#include <exception>
#include <string>

namespace am {

// The message without its stack trace, its source line and the JSON library's name, on one line.
std::string first_line(const std::exception& error);

}  // namespace am
