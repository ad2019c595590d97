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
  std::string dialect;  // of `check`: whose rules; empty: our own
};

// The options that several commands take. A line has one command, so that all share this one.
struct SharedOptions {
  am_apps::CommonFlags& flags;
  std::vector<std::string> sets = {};  // of --set, as written
  PlanOptions plan = {};

  // Fills in what of `plan` follows from the flags and texts of a line that is parsed.
  void settle();
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
// -o, --output
void add_output(CLI::App& command, const char* help, std::string& file);

}  // namespace am_plan
