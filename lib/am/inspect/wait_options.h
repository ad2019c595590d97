// Callbacks of a session while ranks do not answer.
#pragma once

#include <functional>
#include <string>

namespace am::inspect {

struct WaitOptions {
  std::function<bool()> interrupted;               // whether the user wants to stop; may be empty
  std::function<void()> forget_interrupt;          // acknowledges the interrupt; may be empty
  std::function<void(const std::string&)> notice;  // shows a line to the user; may be empty
};

}  // namespace am::inspect
