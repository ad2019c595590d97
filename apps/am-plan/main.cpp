// am-plan: plans, checks and shows parallel layouts from a plan file and a model's config.
#include "command_line.h"

int main(int argc, char** argv) {
  int status = 0;
  const auto invocation = am_plan::parse_command_line(argc, argv, status);
  if (!invocation.has_value()) return status;
  return am_apps::guarded("am-plan", invocation->output, invocation->run);
}
