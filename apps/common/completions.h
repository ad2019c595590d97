// Generates shell completions of a tool's command line.
//
//   source <(am-plan completions bash)
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/description.h"

namespace am_apps {

// Supported shells: "bash", "zsh", "fish".
std::span<const std::string_view> shell_names();

// Returns a script for one of shell_names() that completes commands, options, enumerated values,
// and paths where a file is expected.
std::string completions(const CommandDescription& tool, std::string_view shell);

}  // namespace am_apps
