// When a process began: with its id this names it for good, because ids come back.
#pragma once

#include <cstdint>

namespace am::run_folder {

// In the kernel's ticks since the boot; 0 when there is none of that id.
int64_t process_begin(int64_t pid);

}  // namespace am::run_folder
