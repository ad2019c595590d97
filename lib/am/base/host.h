// Identity of this machine, and unique ids.
#pragma once

#include <string>

namespace am {

// Returns 16 random hexadecimal digits, from the kernel.
std::string unique_id();

// Returns the kernel's id of this boot; empty if /proc does not have it. Containers on one machine
// share the id.
std::string boot_id();
// Returns the host's name, "node-7"; "localhost" if it has none.
std::string host_name();

}  // namespace am
