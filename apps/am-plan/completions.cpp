// am-plan completions SHELL: prints a shell script that completes am-plan's command line. It is
// generated from the parser.
#include "common/completions.h"

#include <memory>

#include "commands.h"
#include "options.h"

namespace am_plan {
namespace {

int run_completions(const CLI::App& tool, const std::string& shell) {
  am_apps::print(am_apps::completions(am_apps::describe(tool), shell));
  return am_apps::kFine;
}

Run declare_completions(CLI::App& command, SharedOptions&) {
  const auto shells = am_apps::shell_names();
  auto shell = std::make_shared<std::string>();
  add_option(command, {"SHELL", "SHELL", "Which shell", kRequired, {shells.begin(), shells.end()}},
             *shell);
  return [shell, &tool = *command.get_parent()](const Output&) {
    return run_completions(tool, *shell);
  };
}

}  // namespace

const Command kCompletionsCommand = {
    .name = "completions",
    .summary = "Print completions for a shell",
    .example = "source <(am-plan completions bash)",
    .declare = declare_completions,
};

}  // namespace am_plan
