// What the tools' command lines have in common: flags, exit statuses, and "did you mean".
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
// `--set section.key=value`, repeatable; it takes one word each time, so that a file may follow.
void add_set(CLI::App& app, std::vector<std::string>& texts);
std::vector<am::config::Override> overrides_of(const std::vector<std::string>& texts);

// `--allow-plugins`, or AM_ALLOW_PLUGINS=1.
void add_plugins(CLI::App& app, CommonFlags& flags);

// A check for options: an integer of at least `low`, said in words.
std::function<std::string(const std::string&)> integer_from(int64_t low);

// Parses. Nothing: go on. Otherwise the exit status: 0 after help or version, 2 after a wrong line,
// about which a message with the nearest known name stands on stderr, and with --json in the object
// on stdout. CLI11's own statuses never
// get out.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace am_apps
