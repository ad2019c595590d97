// How far a command has come with the bytes that it looks at: said by the threads that look, read
// by the one that draws it.
#pragma once

#include <atomic>
#include <cstdint>

namespace am::inspect {

class Progress {
 public:
  // A command begins, which may say later how much it looks at.
  void begin() { total_ = done_ = 0; }
  void expect(int64_t bytes) {
    done_ = 0;
    total_ = bytes;
  }
  void add(int64_t bytes) { done_ += bytes; }

  // 0: nobody has said.
  int64_t total() const { return total_; }
  int64_t done() const { return done_; }

 private:
  std::atomic<int64_t> total_ = 0, done_ = 0;
};

}  // namespace am::inspect
