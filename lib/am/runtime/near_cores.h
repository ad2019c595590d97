// Binds a rank's threads to the cores near its GPU, unless their affinity is already restricted.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace am::runtime {

// Returns the cores of a list in the kernel's format, for example "0-3,8". Returns an empty set for
// any other text.
std::set<int> parse_core_list(std::string_view text);

// Binds the calling thread, and the threads that it creates later, to the cores in its affinity
// that sysfs lists as local to the PCI device with this address, for example "0000:3b:00.0".
// Returns whether the thread was bound. Changes nothing if sysfs lists none or all of the thread's
// cores. Also changes nothing if the thread's affinity excludes cores of the machine (or
// container), because a launcher or the user has then chosen the affinity. `root`: folder that
// contains sys/; "/" except in tests.
bool keep_near(const std::string& pci_address, const std::filesystem::path& root = "/");

}  // namespace am::runtime
