// Polls until another process has answered or a time limit has passed.
#pragma once

#include <chrono>
#include <thread>

namespace am::launch {

// Calls `question` every 50 ms until the result is true or `limit` has passed. Returns the last
// result.
template <typename Question>
auto ask(Question question, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto answer = question();
    if (answer || std::chrono::steady_clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace am::launch
