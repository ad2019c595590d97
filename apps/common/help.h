// Wraps --help to the width of the terminal.
#pragma once

#include <CLI/App.hpp>

namespace am_apps {

// Applies to the tool and all its commands.
void fold_help(CLI::App& app);

}  // namespace am_apps
