// Lets a thread wait until other threads have increased a counter.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace am::test {

inline void wait_for(const std::atomic<int>& count, int wanted) {
  while (count < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace am::test
