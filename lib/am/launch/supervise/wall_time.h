// Wall-clock time, which is comparable between processes, and approximately between nodes.
#pragma once

#include <chrono>

namespace am::launch {

// Returns the time in seconds since the Unix epoch.
inline double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace am::launch
