// am-plan man [COMMAND]: prints the manual page of the tool or of one command. The pages are
// generated from the parser.
#include <filesystem>
#include <memory>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "commands.h"
#include "common/man_page.h"
#include "options.h"

namespace am_plan {
namespace {

struct ManOptions {
  std::string command;  // command whose page is printed; empty: the page of am-plan itself
  std::string folder;   // folder into which all pages are written; empty: one page is printed
};

int run_man(const CLI::App& tool, const ManOptions& options, bool force) {
  const std::string wanted =
      options.command.empty() ? "am-plan.1" : am::cat("am-plan-", options.command, ".1");
  bool printed = !options.folder.empty();
  for (const auto& [name, text] : am_apps::man_pages(am_apps::describe(tool), AM_VERSION)) {
    if (!options.folder.empty()) {
      const std::filesystem::path page = std::filesystem::path(options.folder) / name;
      am::require_free_path(page, force);
      am::write_file_atomically(page, text);
    } else if (name == wanted) {
      am_apps::print(text);
      printed = true;
    }
  }
  if (!printed) {
    throw am::Error(am::ErrorKind::kUsage, am::cat("am-plan has no command ", options.command));
  }
  return am_apps::kFine;
}

Run declare_man(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ManOptions>();
  add_option(command, {"COMMAND", "COMMAND", "Command whose page is printed"}, options->command);
  add_option(command, {"-o,--output", "DIR", "Write all pages into this folder"}, options->folder);
  add_force(command, shared);
  return [options, &shared, &tool = *command.get_parent()](const Output&) {
    return run_man(tool, *options, shared.force);
  };
}

}  // namespace

const Command kManCommand = {
    .name = "man",
    .summary = "Print the manual page of the tool or of a command, or write those of all",
    .example = "am-plan man export | man -l -",
    .declare = declare_man,
};

}  // namespace am_plan
