// Options of am-plan's commands: shared ones, and functions that declare a command's own. Only
// options.cpp includes the parser's header, which is slow to compile.
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

// Options of every command that reads plans.
struct PlanOptions {
  std::vector<std::string> files;  // one, except for `check`
  std::vector<am::config::Override> overrides;
  int64_t world_size = 0;  // 0: the plan's
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  std::string dialect;     // `check` only: framework whose rules apply; empty: automesh's
  bool plan_only = false;  // `check` only: ignore what am-run cannot run
};

// Options that several commands share. A line has one command, so one object serves all of them.
struct SharedOptions {
  am_apps::CommonFlags& flags;
  std::vector<std::string> sets = {};  // values of --set, as written
  PlanOptions plan = {};
  bool force = false;  // overwrite existing files
  // A file that a command writes. The referenced texts live as long as the command's options.
  struct OutputFile {
    const CLI::App* command;
    std::string option;
    const std::string* path;  // empty: no file
  };
  std::vector<OutputFile> outputs = {};

  // Sets plan.overrides from `sets` and plan.plugins from `flags`. Call it after parsing.
  void settle();
  // Throws Error(kUsage) if a file that the command writes exists and --force is not set, or if two
  // of its options name one file.
  void require_free_outputs() const;
};

inline constexpr bool kRequired = true;

// An option or argument of one command.
struct Option {
  const char* name;   // "--svg", "-o,--output"; for an argument its name, "CONFIG"
  const char* value;  // "FILE"; empty: the name of the type
  const char* help;
  bool required = false;                  // or kRequired
  std::vector<std::string> choices = {};  // legal values; empty: any
};

void add_option(CLI::App& command, const Option& option, std::string& text);
// Takes one or more values.
void add_option(CLI::App& command, const Option& option, std::vector<std::string>& texts);
// Takes an integer >= 1.
void add_option(CLI::App& command, const Option& option, int64_t& count);
void add_flag(CLI::App& command, const char* name, const char* help, bool& flag);

// Adds PLAN and the options of add_overrides.
void add_plan(CLI::App& command, SharedOptions& shared);
// Adds --set, --world-size, --allow-plugins and --json.
void add_overrides(CLI::App& command, SharedOptions& shared);
void add_json(CLI::App& command, SharedOptions& shared,
              const char* help = "One JSON object on stdout");
void add_rank(CLI::App& command, const char* help, std::optional<int64_t>& rank);
// Adds an option for a file that the command writes atomically, and --force, without which existing
// files are not overwritten (require_free_outputs).
void add_output_file(CLI::App& command, SharedOptions& shared, const Option& option,
                     std::string& file);
// -o, --output
void add_output(CLI::App& command, SharedOptions& shared, const char* help, std::string& file);
// Adds --force, unless the command has it already.
void add_force(CLI::App& command, SharedOptions& shared,
               const char* help = "Overwrite existing files");

}  // namespace am_plan
