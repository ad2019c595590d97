// Completions of a tool's command line, for the shells that people use.
//
//   source <(am-plan completions bash)
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/description.h"

namespace am_apps {

// "bash", "zsh", "fish"
std::span<const std::string_view> shell_names();

// A script for one of shell_names() that completes commands, options, values from a list, and
// files where files are meant.
std::string completions(const CommandDescription& tool, std::string_view shell);

}  // namespace am_apps
