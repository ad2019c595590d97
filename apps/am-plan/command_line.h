// am-plan's command line: which command, with which options.
#pragma once

#include <functional>
#include <optional>

#include "common/output.h"

namespace am_plan {

struct Invocation {
  am_apps::Output output;
  std::function<int()> run;
};

// Nothing: help or version was printed (status 0), or the line was wrong (status 2, said on
// stderr).
std::optional<Invocation> parse_command_line(int argc, char** argv, int& status);

}  // namespace am_plan
