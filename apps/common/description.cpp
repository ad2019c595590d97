#include "common/description.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "am/base/text.h"

namespace am_apps {
namespace {

// Returns the legal values that CLI11 appends to the name of an option's type: for example three
// values for "WHEN:{auto,always,never}".
std::vector<std::string> values_of(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return am::split(type.substr(open + 1, close - open - 1), ',');
}

// Returns whether the value of an option or argument is a path. `value` is the name of the value in
// --help.
bool names_file(std::string_view value) {
  constexpr std::array<std::string_view, 13> kFiles = {
      "FILE", "PLAN", "CSV", "DIR", "FOLDER", "CONFIG",         "SCRIPT",
      "ROWS", "RUNS", "A",   "B",   "TARGET", "PROGRAM ARGS..."};
  return std::find(kFiles.begin(), kFiles.end(), value) != kFiles.end();
}

OptionDescription describe(const CLI::Option& option) {
  OptionDescription out;
  out.is_argument = option.get_positional();
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  const std::string type = option.get_type_name();
  const size_t bracket = am::starts_with(type, "[") ? type.find(']') : 0;  // as in "[HOST:]PORT"
  out.value = type.substr(0, type.find(':', bracket));
  out.values = values_of(type);
  if (out.is_argument) {
    out.names = {option.get_name(true, false)};
    out.value = out.names.front();
  }
  if (option.get_items_expected_max() == 0) out.value.clear();
  out.is_required = option.get_required();
  out.is_repeatable = option.get_items_expected_max() > 1 ||
                      option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  out.is_file = out.values.empty() && names_file(out.value);
  out.help = option.get_description();
  return out;
}

}  // namespace

CommandDescription describe(const CLI::App& app) {
  CommandDescription out;
  out.name = app.get_name();
  out.help = app.get_description();
  out.footer = app.get_footer();
  out.common_options = app.get_fallthrough();
  // am-run's commands have their examples at the end of the description.
  if (const size_t end = out.help.find("\n\nExamples:\n"); end != std::string::npos) {
    out.footer = out.help.substr(end + 2);
    out.help.resize(end);
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.options.push_back(describe(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    out.commands.push_back(describe(*command));
  }
  return out;
}

}  // namespace am_apps
