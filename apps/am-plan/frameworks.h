// What `export` and `import` share: the other framework, and what is said about its files.
#pragma once

#include <string>
#include <vector>

#include "am/planner/exchange/exchange.h"
#include "common/output.h"

namespace CLI {
class App;
}

namespace am_plan {

// A required option, "--to" or "--from", whose value is a framework's name.
void add_framework(CLI::App& command, const char* name, const char* help, std::string& framework);
// The framework of such a value.
const am::planner::Framework& framework_of(const std::string& name);

// On stderr, one line each.
void print_notes(const std::vector<std::string>& notes, const am_apps::Output& output);

}  // namespace am_plan
