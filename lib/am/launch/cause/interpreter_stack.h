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

  // Returns whether the file belongs to an installed package or to the interpreter. The decision
  // depends on the file's path only.
  bool is_installed() const;
};

// Returns the frames of the last stack in the lines, innermost first; empty if there is no stack. A
// stack begins with a line "Current thread ... (most recent call first):", for the thread in which
// faulthandler's signal handler ran, or "Stack (most recent call first):". Stacks of other threads
// are ignored.
std::vector<InterpreterFrame> last_stack(const std::vector<std::string>& lines);

// Returns the position in the code that an interpreter executed: the innermost frame outside
// installed packages, for example "train_step (train.py:42)". If this frame called a package, the
// text ends in ", which called " and the innermost frame. If all frames are in packages, returns
// the innermost frame. Returns an empty text if `frames` is empty.
std::string position_of(const std::vector<InterpreterFrame>& frames);

}  // namespace am::launch
