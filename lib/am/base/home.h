// "~" in paths that a user types where no shell sees them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace am {

// Whether a shell would put the home folder in the place of its beginning: "~", "~/x".
bool begins_with_home(std::string_view path);

// "~/x" -> "$HOME/x"; other paths as they are. Throws Error(kUsage) for "~name", which only a shell
// knows, and for "~" without HOME.
std::filesystem::path expand_home(const std::string& path);

}  // namespace am
