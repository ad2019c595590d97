// --help, in lines that are no wider than the terminal.
#pragma once

#include <CLI/App.hpp>

namespace am_apps {

// For the tool and all its commands.
void fold_help(CLI::App& app);

}  // namespace am_apps
