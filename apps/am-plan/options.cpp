#include "options.h"

#include <map>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "common/command_line.h"

namespace am_plan {
namespace {

template <typename Value>
CLI::Option& declare(CLI::App& command, const Option& option, Value& value) {
  CLI::Option* added = command.add_option(option.name, value, option.help);
  added->required(option.required);
  if (*option.value != '\0') added->type_name(option.value);
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  return *added;
}

}  // namespace

void SharedOptions::settle() {
  plan.overrides = am_apps::overrides_of(sets);
  plan.plugins = flags.plugins();
}

void SharedOptions::require_free_outputs() const {
  std::map<std::string, std::string> options;  // path of an output file -> option that names it
  for (const OutputFile& output : outputs) {
    if (!output.command->parsed() || output.path->empty()) continue;
    am::require_free_path(*output.path, force);
    const auto [first, is_new] = options.emplace(*output.path, output.option);
    if (is_new) continue;
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat(first->second, " and ", output.option, " both write ", *output.path));
  }
}

void add_option(CLI::App& command, const Option& option, std::string& text) {
  // An unset shell variable yields an empty value. An empty value is an error, because the code
  // would treat it as a missing option.
  declare(command, option, text).check([](const std::string& value) {
    return value.empty() ? std::string("the value is empty") : std::string();
  });
}

void add_option(CLI::App& command, const Option& option, std::vector<std::string>& texts) {
  constexpr int kAnyNumber = 1 << 20;
  declare(command, option, texts).expected(1, kAnyNumber);
}

void add_option(CLI::App& command, const Option& option, int64_t& count) {
  declare(command, option, count)
      .check(option.key.empty() ? am_apps::integer_from(1) : am_apps::integer_of(option.key));
}

void add_flag(CLI::App& command, const char* name, const char* help, bool& flag) {
  command.add_flag(name, flag, help);
}

void add_plan(CLI::App& command, SharedOptions& shared) {
  const Option plan = {"PLAN", "", "The plan file (TOML)", kRequired};
  declare(command, plan, shared.plan.files).expected(1);
  add_overrides(command, shared);
}

void add_optional_plan(CLI::App& command, SharedOptions& shared, const char* help) {
  declare(command, {"PLAN", "", help}, shared.plan.files).expected(1);
  am_apps::add_set(command, shared.sets);
}

void add_overrides(CLI::App& command, SharedOptions& shared) {
  am_apps::add_set(command, shared.sets);
  add_option(command, {"--world-size", "N", "Number of ranks, as a launcher would give it"},
             shared.plan.world_size);
  am_apps::add_plugins(command, shared.flags);
  add_json(command, shared);
}

void add_json(CLI::App& command, SharedOptions& shared, const char* help) {
  am_apps::add_json(command, shared.flags, help);
}

void add_rank(CLI::App& command, const char* help, std::optional<int64_t>& rank) {
  declare(command, {"--rank", "R", help}, rank).check(am_apps::integer_from(0));
}

void add_output_file(CLI::App& command, SharedOptions& shared, const Option& option,
                     std::string& file) {
  const CLI::Option& added = declare(command, option, file);
  shared.outputs.push_back({&command, added.get_name(), &file});
  add_force(command, shared);
}

void add_output(CLI::App& command, SharedOptions& shared, const char* help, std::string& file) {
  add_output_file(command, shared, {"-o,--output", "FILE", help}, file);
}

void add_force(CLI::App& command, SharedOptions& shared, const char* help) {
  if (command.get_option_no_throw("--force") != nullptr) return;
  add_flag(command, "--force", help, shared.force);
}

}  // namespace am_plan
