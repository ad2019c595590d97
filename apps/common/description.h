// A command line as data: what shell completions and manual pages are made from. It is read off
// the parser itself, so that they never say something else than --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace am_apps {

struct OptionDescription {
  std::vector<std::string> names;  // "--json", "-o"; of an argument its name, "PLAN"
  bool is_argument = false;        // by position
  bool is_required = false;
  bool is_repeatable = false;
  std::string value;                // "FILE"; empty: a flag without one
  std::vector<std::string> values;  // the legal ones, where there is a list
  bool is_file = false;             // completed as a path
  std::string help;
};

struct CommandDescription {
  std::string name;
  std::string help;
  std::string footer;  // the example
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
  std::vector<std::pair<std::string, std::string>> words;  // that its prompt takes, with their help
};

// The tool and, below it, its commands; options of the tool itself also hold for the commands.
CommandDescription describe(const CLI::App& app);

}  // namespace am_apps
