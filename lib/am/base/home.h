// Expands "~" in paths that no shell has processed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace am {

// Whether the path is "~" or begins with "~/", which shells expand to the home folder.
bool begins_with_home(std::string_view path);

// Replaces a "~" at the beginning by $HOME, as in "~/x"; returns other paths unchanged. Throws
// Error(kUsage) for "~name", which only shells support, and for "~" if HOME is not set.
std::filesystem::path expand_home(const std::string& path);

}  // namespace am
