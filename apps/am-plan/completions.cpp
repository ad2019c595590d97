// am-plan completions SHELL: prints a shell script that completes am-plan's command line.
#include "common/completions.h"

#include <memory>

#include "am/config/model_names.h"
#include "am/frameworks/framework_rules.h"
#include "am/inspect/completion.h"
#include "commands.h"

namespace am_plan {
namespace {

Run declare_completions(CLI::App& command, SharedOptions&) {
  auto shell = std::make_shared<std::string>();
  am_apps::add_shell(command, *shell);
  return [shell](const Output&) {
    am_apps::print(am_apps::completions("am-plan", *shell));
    return am_apps::kFine;
  };
}

}  // namespace

am_apps::Words values_of(const am_apps::Asked& asked) {
  am_apps::Words out;
  const std::string& name = asked.option.names.back();
  if (name == "RULE") {
    for (const am::rules::Rule* rule : am::frameworks::every_rule()) {
      out.add(std::string(rule->id), std::string(rule->summary));
    }
  } else if (asked.option.value == "CONFIG") {
    for (const std::string& model : am::config::builtin_models()) out.add(model);
  } else if (name == "--param" && !asked.arguments.empty()) {
    const auto names = am_apps::parameter_names(asked.arguments.front());
    for (const std::string& each : am::inspect::by_segment(names, asked.typed)) out.add(each);
  }
  return out;
}

const Command kCompletionsCommand = {
    .name = "completions",
    .summary = "Print completions for a shell",
    .example = "source <(am-plan completions bash)",
    .declare = declare_completions,
};

}  // namespace am_plan
