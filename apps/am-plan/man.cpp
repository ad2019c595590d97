// am-plan man [COMMAND]: prints the manual page of the tool or of one command. The pages are
// generated from the parser of the command line.
#include <memory>

#include "commands.h"
#include "common/man_page.h"

namespace am_plan {
namespace {

Run declare_man(CLI::App& command, SharedOptions&) {
  auto options = std::make_shared<am_apps::ManOptions>();
  am_apps::add_man(command, *options);
  return [options, &tool = *command.get_parent()](const Output&) {
    am_apps::run_man(am_apps::describe(tool), *options);
    return am_apps::kFine;
  };
}

}  // namespace

const Command kManCommand = {
    .name = "man",
    .summary = "Print the manual page of am-plan or of one command, or write all pages",
    .example = "am-plan man export | man -l -",
    .declare = declare_man,
};

}  // namespace am_plan
