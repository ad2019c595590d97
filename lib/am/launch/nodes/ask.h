// Waiting for an answer that somebody else gives.
#pragma once

#include <chrono>
#include <thread>

namespace am::launch {

// Calls `question`, twenty times a second, until it gives something or the time is over; what it
// gave last.
template <typename Question>
auto ask(Question question, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto answer = question();
    if (answer || std::chrono::steady_clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace am::launch
