// Start time of a process. Process ids are reused; id and start time together identify a process.
#pragma once

#include <cstdint>

namespace am::run_folder {

// Returns the start time in the kernel's ticks since boot; 0 if no process has that id.
int64_t process_begin(int64_t pid);
// Returns this process's start time as Unix time in seconds, with a resolution of 10 ms.
double own_process_began();

}  // namespace am::run_folder
