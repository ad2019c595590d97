// Binds a rank's threads to the cores near its GPU, unless their affinity is already restricted.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace am::runtime {

// Parses a list of cores in the kernel's format, "0-3,8". Returns an empty set for any other text.
std::set<int> parse_core_list(std::string_view text);

// Binds the calling thread, and so the threads that it creates later, to the cores that sysfs lists
// as local to a PCI device ("0000:3b:00.0"). Does nothing if the thread's affinity does not include
// all cores of the machine (or container), because a launcher or the user chose it, or if sysfs
// lists none of its cores. Returns whether it bound the thread. `root`: other than "/" in tests.
bool keep_near(const std::string& pci_address, const std::filesystem::path& root = "/");

}  // namespace am::runtime
