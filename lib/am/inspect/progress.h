// Feedback while a command runs: the number of bytes that the command has read, and the text of its
// answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace am::inspect {

// Counts the bytes that a command has read. Reading threads update the two counts (bytes to read
// and bytes read); another thread displays them.
class Progress {
 public:
  // Sets both counts to zero at the start of a command. The command may call expect() later.
  void begin() { total_ = done_ = 0; }
  void expect(int64_t bytes) {
    done_ = 0;
    total_ = bytes;
  }
  void add(int64_t bytes) { done_ += bytes; }

  // Returns the number of bytes that the command will read; 0 if it is not known.
  int64_t total() const { return total_; }
  int64_t done() const { return done_; }

 private:
  std::atomic<int64_t> total_ = 0, done_ = 0;
};

// Shows the text of a command while the command runs.
struct LiveText {
  std::function<void(const std::string& text)> print;
  // False if the answer of the running command goes to a pipe or a file, is converted to an output
  // mode other than "table", or is part of the answer of `source`.
  bool on = true;
};

}  // namespace am::inspect
