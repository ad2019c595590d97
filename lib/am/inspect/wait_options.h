// Declares the callbacks by which a session communicates with the user while it waits for ranks.
#pragma once

#include <functional>
#include <string>

namespace am::inspect {

struct WaitOptions {
  // Each of the three functions may be empty.
  std::function<bool()> interrupted;               // returns whether the user wants to stop
  std::function<void()> forget_interrupt;          // makes `interrupted` return false again
  std::function<void(const std::string&)> notice;  // shows a line of text to the user
};

}  // namespace am::inspect
