// Identity of this machine, and unique ids.
#pragma once

#include <string>

namespace am {

// Returns 16 random hexadecimal digits, from the kernel.
std::string unique_id();

// Returns the kernel's id of the current boot of this machine, or an empty text if /proc does not
// contain the id. Containers on one machine share the id.
std::string boot_id();
// Returns the host's name, for example "node-7", or "localhost" if the host has no name.
std::string host_name();

}  // namespace am
