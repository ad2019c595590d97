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
// Adds `--set section.key=value`. Repeatable; each takes one word, so a positional file may follow.
void add_set(CLI::App& app, std::vector<std::string>& texts);
std::vector<am::config::Override> overrides_of(const std::vector<std::string>& texts);

// Adds `--allow-plugins`; AM_ALLOW_PLUGINS=1 has the same effect.
void add_plugins(CLI::App& app, CommonFlags& flags);

// Returns an option check that accepts integers of at least `low` and describes the violation in
// words.
std::function<std::string(const std::string&)> integer_from(int64_t low);

// Parses the command line. Returns nothing if parsing succeeded; otherwise the exit status: 0 after
// help or version, 2 after a wrong line. For a wrong line it prints a message with the nearest
// known name to stderr and, with --json, an object to stdout. CLI11's own statuses are never
// returned.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace am_apps
