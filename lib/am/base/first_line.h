// Shortens exception messages for users: c10 (PyTorch's core) appends a C++ stack trace to its
// messages.
#pragma once

#include <exception>
#include <string>

namespace am {

// Returns the first line of the exception's message, without the source location and the JSON
// library's prefix.
std::string first_line(const std::exception& error);

}  // namespace am
