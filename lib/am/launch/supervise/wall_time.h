// Two clocks. Wall-clock times can be compared between the processes of a node, and approximately
// between nodes. The monotonic clock measures durations.
#pragma once

#include <chrono>

namespace am::launch {

// Returns the time in seconds since the Unix epoch.
inline double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the seconds that have passed since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace am::launch
