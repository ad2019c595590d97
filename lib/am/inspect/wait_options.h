// What a session asks and tells the user while ranks do not answer.
#pragma once

#include <functional>
#include <string>

namespace am::inspect {

struct WaitOptions {
  std::function<bool()> interrupted;               // did the user ask to stop? May be empty
  std::function<void()> forget_interrupt;          // it was obeyed; may be empty
  std::function<void(const std::string&)> notice;  // a line for the user; may be empty
};

}  // namespace am::inspect
