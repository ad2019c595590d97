// The commands of am-plan: one row each, from which the command line, --help, completions and
// manual pages all come.
//
// To add a command: one file with its `Command` value, and its name in commands.h and commands.cpp.
#pragma once

#include <functional>

#include "common/output.h"

namespace CLI {
class App;
}

namespace am_plan {

using am_apps::Output;
struct SharedOptions;

// Gives the exit status.
using Run = std::function<int(const Output&)>;

struct Command {
  const char* name;
  const char* summary;  // one line
  const char* example;
  // Adds the command's own options, and gives what runs it once the line is parsed. `command` and
  // `shared` live as long as that.
  Run (*declare)(CLI::App& command, SharedOptions& shared);
};

}  // namespace am_plan
