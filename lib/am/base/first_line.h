// c10's exceptions contain a C++ stack trace; users need only the first sentence.
#pragma once

#include <exception>
#include <string>

namespace am {

// Returns the message on one line, without stack trace, source location and the JSON library's
// name.
std::string first_line(const std::exception& error);

}  // namespace am
