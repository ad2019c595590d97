// Returns the error message of a call.
#pragma once

#include <exception>
#include <functional>
#include <string>

// Empty if the call succeeds.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}
