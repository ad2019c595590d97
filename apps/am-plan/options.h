// Options of am-plan's commands: those that several share, and how a command declares its own. The
// parser's header is slow to compile: only options.cpp includes it, the commands do not.
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

// What every command on plans takes.
struct PlanOptions {
  std::vector<std::string> files;  // one, but for `check`
  std::vector<am::config::Override> overrides;
  int64_t world_size = 0;  // 0: the plan's
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  std::string dialect;     // of `check`: whose rules; empty: our own
  bool plan_only = false;  // of `check`: am-run is not asked whether it runs the plan
};

// The options that several commands take. A line has one command, so that all share this one.
struct SharedOptions {
  am_apps::CommonFlags& flags;
  std::vector<std::string> sets = {};  // of --set, as written
  PlanOptions plan = {};
  bool force = false;  // files that are there may be written over
  // A file that a command writes. The texts live as long as the command's options.
  struct OutputFile {
    const CLI::App* command;
    std::string option;
    const std::string* path;  // empty: none
  };
  std::vector<OutputFile> outputs = {};

  // Fills in what of `plan` follows from the flags and texts of a line that is parsed.
  void settle();
  // Throws Error(kUsage) where a file that the line's command writes is there and --force is not
  // given, or two of its options name one file.
  void require_free_outputs() const;
};

inline constexpr bool kRequired = true;

// An option or argument of one command.
struct Option {
  const char* name;   // "--svg", "-o,--output"; of an argument its name, "CONFIG"
  const char* value;  // "FILE"; empty: what the type is called
  const char* help;
  bool required = false;                  // or kRequired
  std::vector<std::string> choices = {};  // the legal values; empty: any
};

void add_option(CLI::App& command, const Option& option, std::string& text);
// One or more of them.
void add_option(CLI::App& command, const Option& option, std::vector<std::string>& texts);
// An integer from 1 on.
void add_option(CLI::App& command, const Option& option, int64_t& count);
void add_flag(CLI::App& command, const char* name, const char* help, bool& flag);

// PLAN, then what add_overrides adds.
void add_plan(CLI::App& command, SharedOptions& shared);
// --set, --world-size, --allow-plugins and --json.
void add_overrides(CLI::App& command, SharedOptions& shared);
void add_json(CLI::App& command, SharedOptions& shared,
              const char* help = "One JSON object on stdout");
void add_rank(CLI::App& command, const char* help, std::optional<int64_t>& rank);
// A file that the command writes, whole or not at all, and --force, without which none that is
// there is written over: require_free_outputs.
void add_output_file(CLI::App& command, SharedOptions& shared, const Option& option,
                     std::string& file);
// -o, --output
void add_output(CLI::App& command, SharedOptions& shared, const char* help, std::string& file);
// --force; nothing where the command has it.
void add_force(CLI::App& command, SharedOptions& shared,
               const char* help = "Write over files that are there");

}  // namespace am_plan
