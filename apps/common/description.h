// A command line as data, from which shell completions and manual pages are generated. It is read
// from the parser itself, so it always agrees with --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace am_apps {

struct OptionDescription {
  std::vector<std::string> names;  // "--json", "-o"; for an argument its name, "PLAN"
  bool is_argument = false;        // positional
  bool is_required = false;
  bool is_repeatable = false;
  std::string value;                // "FILE"; empty for a flag without a value
  std::vector<std::string> values;  // legal values, if they are enumerated
  bool is_file = false;             // completed as a path
  std::string help;
};

struct CommandDescription {
  std::string name;
  std::string help;
  std::string footer;  // example
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
  std::vector<std::pair<std::string, std::string>> words;  // prompt commands with their help
};

// Describes the tool and all its commands. Options of the tool itself also apply to the commands.
CommandDescription describe(const CLI::App& app);

}  // namespace am_apps
