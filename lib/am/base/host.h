// Which machine this is, and names that no other process draws.
#pragma once

#include <string>

namespace am {

// 16 hexadecimal digits from the kernel's random numbers.
std::string unique_id();

// The kernel's name for this boot of this machine; empty where /proc does not say. Containers of a
// machine share it.
std::string boot_id();
// "node-7"; "localhost" where there is none.
std::string host_name();

}  // namespace am
