// Start time of a process. Together with its id it identifies the process, because ids are reused.
#pragma once

#include <cstdint>

namespace am::run_folder {

// Returns the start time in the kernel's ticks since boot; 0 if no process has that id.
int64_t process_begin(int64_t pid);
// Returns this process's start time as Unix time in seconds, with a resolution of 10 ms.
double own_process_began();

}  // namespace am::run_folder
