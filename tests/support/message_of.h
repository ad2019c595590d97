// What a call says when it fails.
#pragma once

#include <exception>
#include <functional>
#include <string>

// Empty: it did not.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}
