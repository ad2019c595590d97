// The commands of am-plan: one row each, from which the command line, --help, completions and
// manual pages are generated.
//
// To add a command, write a file with its `Command` value, and add its name to commands.h and
// commands.cpp.
#pragma once

#include <functional>

#include "common/output.h"

namespace CLI {
class App;
}

namespace am_plan {

using am_apps::Output;
struct SharedOptions;

// Runs the command and returns the exit status.
using Run = std::function<int(const Output&)>;

struct Command {
  const char* name;
  const char* summary;  // one line
  const char* example;
  // Adds the command's own options, and returns the function that runs it after the line is parsed.
  // `command` and `shared` outlive that function.
  Run (*declare)(CLI::App& command, SharedOptions& shared);
};

}  // namespace am_plan
