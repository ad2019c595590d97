// Start time of a process. A process id alone may be reused after the process has ended; the id and
// the start time together identify a process.
#pragma once

#include <cstdint>

namespace am::run_folder {

// Returns the start time of a process in the kernel's clock ticks since boot; 0 if no process has
// this id.
int64_t process_begin(int64_t pid);
// Returns this process's start time as Unix time in seconds, with the resolution of one clock tick
// (usually 10 ms).
double own_process_began();

}  // namespace am::run_folder
