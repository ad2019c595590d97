// c10's exceptions carry a C++ stack trace in their text; people want the first sentence.
#pragma once

#include <exception>
#include <string>

namespace am {

// The message without its stack trace and source line, on one line.
std::string first_line(const std::exception& error);

}  // namespace am
