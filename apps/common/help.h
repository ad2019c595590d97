// Wraps --help to the width of the terminal.
#pragma once

#include <CLI/App.hpp>

namespace am_apps {

// Wraps the help of the tool and of all its commands.
void fold_help(CLI::App& app);

}  // namespace am_apps
