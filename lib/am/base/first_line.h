// Shortens exception messages for users: c10 (PyTorch's core) appends a C++ stack trace to its
// messages.
#pragma once

#include <exception>
#include <string>

namespace am {

// Returns the exception's message as one line, without the stack trace, the source location and the
// JSON library's name.
std::string first_line(const std::exception& error);

}  // namespace am
