// Catches the error of a call, for tests of error messages.
#pragma once

#include <exception>
#include <functional>
#include <string>

// Returns the message of the exception that the call throws; empty if it throws none.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}
