// Identity of this machine, and unique ids.
#pragma once

#include <string>

namespace am {

// Returns 16 random hexadecimal digits, from the kernel.
std::string unique_id();

// Returns the id that the kernel gave to this boot of the machine; empty if /proc does not have it.
// Containers on one machine share the id.
std::string boot_id();
// Returns the host's name, for example "node-7", or "localhost" if it has none.
std::string host_name();

}  // namespace am
