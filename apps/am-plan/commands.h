// The commands of am-plan, each described by one `Command`. The command line, --help, completions
// and manual pages are generated from these descriptions.
//
// To add a command, write a file with its `Command` value, and add its name here and in
// commands.cpp.
#pragma once

#include <functional>
#include <span>

#include "common/output.h"

namespace CLI {
class App;
}
namespace am_apps {
struct Asked;
struct Words;
}  // namespace am_apps

namespace am_plan {

using am_apps::Output;
struct SharedOptions;

// Runs the command and returns the exit status.
using Run = std::function<int(const Output&)>;

struct Command {
  const char* name;
  const char* summary;  // one line
  const char* example;
  // Adds the command's own options, and returns the function that runs the command once the command
  // line has been parsed. `command` and `shared` outlive that function.
  Run (*declare)(CLI::App& command, SharedOptions& shared);
};

// Returns the commands in the order of --help.
std::span<const Command* const> commands();

extern const Command kCheckCommand;
extern const Command kShowCommand;
extern const Command kModelCommand;
extern const Command kShardsCommand;
extern const Command kTpCommand;
extern const Command kMemoryCommand;
extern const Command kCostCommand;
extern const Command kJobCommand;
extern const Command kSearchCommand;
extern const Command kReportCommand;
extern const Command kScheduleCommand;
extern const Command kDiffCommand;
extern const Command kExportCommand;
extern const Command kImportCommand;
extern const Command kRulesCommand;
extern const Command kExplainCommand;
extern const Command kSchemaCommand;
extern const Command kLspCommand;
extern const Command kCompletionsCommand;
extern const Command kManCommand;

// Returns the values that may complete the option or argument `asked`: ids of rules, names of
// built-in models, or names of the plan's parameters.
am_apps::Words values_of(const am_apps::Asked& asked);

}  // namespace am_plan
