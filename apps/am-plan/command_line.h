// Parses am-plan's command line.
#pragma once

#include <functional>
#include <optional>

#include "common/output.h"

namespace am_plan {

struct Invocation {
  am_apps::Output output;
  std::function<int()> run;
};

// Returns nothing, and sets `status`, if help or the version was printed (0) or the line is invalid
// (2, reported on stderr).
std::optional<Invocation> parse_command_line(int argc, char** argv, int& status);

}  // namespace am_plan
