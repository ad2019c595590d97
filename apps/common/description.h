// Describes a tool's command line as data, from which shell completions and manual pages are
// generated. The description is read from the parser itself, so that it agrees with --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace am_apps {

struct OptionDescription {
  std::vector<std::string> names;  // for example "--output" and "-o"; "PLAN" for an argument
  bool is_argument = false;        // a positional argument, not an option
  bool is_required = false;
  bool is_repeatable = false;
  std::string value;  // name of the value in --help, for example "FILE"; empty: a flag
  std::vector<std::string> values;  // legal values; empty if they are not enumerated
  bool is_file = false;             // the value is a path, which shells complete as such
  std::string help;
};

// Names of values in --help: kSetting is completed with keys of a plan, kCommandName with commands.
inline constexpr const char* kSetting = "SECTION.KEY=VALUE";
inline constexpr const char* kCommandName = "COMMAND";
// End of a value's name in --help if the value is the rest of the command line.
inline constexpr const char* kRest = "...";

struct CommandDescription {
  std::string name;
  std::string help;
  std::string footer;  // examples at the end of --help
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
  bool common_options = false;  // whether the options may also follow the name of a command
  // Usage and help of each command of am-repl's prompt; empty for other tools.
  std::vector<std::pair<std::string, std::string>> words;
};

// Describes the tool and all its commands.
CommandDescription describe(const CLI::App& app);

}  // namespace am_apps
