// Shared command-line code of the tools: common flags, exit statuses and "did you mean"
// suggestions.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/term/style.h"
#include "common/description.h"

namespace am_apps {

struct CommonFlags {
  bool json = false;
  std::string color = "auto";
  bool allow_plugins = false;

  am::term::ColorMode color_mode() const;
  am::config::Plugins plugins() const;
};

void add_color(CLI::App& app, CommonFlags& flags);
void add_json(CLI::App& app, CommonFlags& flags, const std::string& help);
// Adds `--set section.key=value`, which may be repeated. Each --set has exactly one value, so that
// the next word may be the file argument.
void add_set(CLI::App& app, std::vector<std::string>& texts);
// Converts the values of --set, which add_set() collects, to overrides of the plan's keys.
std::vector<am::config::Override> overrides_of(const std::vector<std::string>& texts);

// Adds `--allow-plugins`; AM_ALLOW_PLUGINS=1 has the same effect.
void add_plugins(CLI::App& app, CommonFlags& flags);

// Returns a CLI11 check that accepts integers of at least `low`. The error message describes the
// legal values in words.
std::function<std::string(const std::string&)> integer_from(int64_t low);
// Returns a CLI11 check that accepts integers from 1 to the largest value of a plan's key, for
// example of the key "train.seq_len".
std::function<std::string(const std::string&)> integer_of(std::string_view key);

// Parses the command line. Returns nothing if the tool must go on; otherwise the status with which
// it must exit: 0 after printing help or version, 2 after a wrong command line. A wrong command
// line is reported on stderr, with a similar name if there is one, and with --json also as an
// object on stdout. CLI11's own exit statuses are never returned.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

// Returns the description of the parser that `run`, a function like main(), passes to parse().
// Calls `run` without arguments; parse() then ends `run` by an exception instead of parsing.
CommandDescription description_of(const std::function<void(int argc, char** argv)>& run);

}  // namespace am_apps
