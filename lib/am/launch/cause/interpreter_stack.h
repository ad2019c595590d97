// Reads stacks of an interpreter, in the format in which Python's faulthandler writes them:
//
//   Current thread 0x00007f... (most recent call first):
//     File "/home/me/train.py", line 42 in train_step
#pragma once

#include <string>
#include <vector>

namespace am::launch {

struct InterpreterFrame {
  std::string function;
  std::string file;
  std::string line;

  // Returns whether the file is part of an installed package or of the interpreter.
  bool is_installed() const;
};

// Returns the frames of the last stack in the lines, innermost first; empty if there is no stack.
// Stacks of threads other than the one that handled the signal ("Current thread") are ignored.
std::vector<InterpreterFrame> last_stack(const std::vector<std::string>& lines);

// Returns the line that an interpreter executed: the innermost frame outside installed packages,
// for example "train_step (train.py:42)", and, if this frame has called a package, also the
// innermost frame. Empty if `frames` is empty.
std::string position_of(const std::vector<InterpreterFrame>& frames);

}  // namespace am::launch
