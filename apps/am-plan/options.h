// Options that am-plan's commands share, and functions with which a command declares its own
// options. Files that use these functions need not include CLI11's header, which is slow to
// compile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"

namespace CLI {
class App;
}
namespace am_apps {
struct CommonFlags;
}

namespace am_plan {

// Options of every command that reads a plan.
struct PlanOptions {
  std::vector<std::string> files;               // plan files; only `check` accepts several
  std::vector<am::config::Override> overrides;  // keys that --set changes in the plan
  int64_t world_size = 0;  // number of ranks (--world-size); 0: the plan's mesh determines it
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  // Only `check` sets the members below.
  std::string dialect;     // framework whose rules are checked; empty: automesh's own rules
  bool plan_only = false;  // do not report features that am-run does not support
  std::string from;        // `files` are configurations of this framework; empty: plans
  std::string model;       // model of these configurations: a config.json, its folder, or a name
};

// Options that several commands share. A command line names one command, so one object serves all
// commands.
struct SharedOptions {
  am_apps::CommonFlags& flags;
  std::vector<std::string> sets = {};  // values of --set, as the user wrote them
  PlanOptions plan = {};
  bool force = false;  // --force: overwrite existing files
  // An option that names a file which a command writes. `path` points into the command's options.
  struct OutputFile {
    const CLI::App* command;
    std::string option;
    const std::string* path;  // empty string: the option was not given, so no file is written
  };
  std::vector<OutputFile> outputs = {};

  // Sets plan.overrides from `sets` and plan.plugins from `flags`. Called once the command line has
  // been parsed.
  void settle();
  // Throws Error(kUsage) if a file that the command would write exists and --force is not set, or
  // if two of the command's options name one file.
  void require_free_outputs() const;
};

inline constexpr bool kRequired = true;

// An option or argument of one command.
struct Option {
  const char* name;   // for example "--svg" or "-o,--output"; "CONFIG" for an argument
  const char* value;  // name of the value in --help, such as "FILE"; empty: CLI11's, such as "TEXT"
  const char* help;
  bool required = false;                  // whether the command fails without it
  std::vector<std::string> choices = {};  // legal values; empty: any value is legal
  // Key of a plan: an integer above the key's largest legal value is refused. Empty: no such limit.
  std::string_view key = {};
};

// Adds an option whose value is a text that must not be empty.
void add_option(CLI::App& command, const Option& option, std::string& text);
// Adds an option that accepts one or more values.
void add_option(CLI::App& command, const Option& option, std::vector<std::string>& texts);
// Adds an option whose value is an integer of at least 1.
void add_option(CLI::App& command, const Option& option, int64_t& count);
void add_flag(CLI::App& command, const char* name, const char* help, bool& flag);

// Adds the argument PLAN and the options that add_overrides() adds.
void add_plan(CLI::App& command, SharedOptions& shared);
// Adds an optional argument PLAN, and --set.
void add_optional_plan(CLI::App& command, SharedOptions& shared, const char* help);
// Adds --set, --world-size, --allow-plugins and --json.
void add_overrides(CLI::App& command, SharedOptions& shared);
void add_json(CLI::App& command, SharedOptions& shared,
              const char* help = "One JSON object on stdout");
void add_rank(CLI::App& command, const char* help, std::optional<int64_t>& rank);
// Adds an option that names a file which the command writes. Also adds --force, without which an
// existing file is an error (see require_free_outputs).
void add_output_file(CLI::App& command, SharedOptions& shared, const Option& option,
                     std::string& file);
// Adds the option "-o,--output FILE" by add_output_file().
void add_output(CLI::App& command, SharedOptions& shared, const char* help, std::string& file);
// Adds --force if the command does not have it yet.
void add_force(CLI::App& command, SharedOptions& shared,
               const char* help = "Overwrite existing files");

}  // namespace am_plan
