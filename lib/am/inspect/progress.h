// Progress of a command in bytes read: written by the threads that read, displayed by another
// thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace am::inspect {

class Progress {
 public:
  // Resets at the start of a command, which may call expect() later.
  void begin() { total_ = done_ = 0; }
  void expect(int64_t bytes) {
    done_ = 0;
    total_ = bytes;
  }
  void add(int64_t bytes) { done_ += bytes; }

  // 0: unknown.
  int64_t total() const { return total_; }
  int64_t done() const { return done_; }

 private:
  std::atomic<int64_t> total_ = 0, done_ = 0;
};

}  // namespace am::inspect
