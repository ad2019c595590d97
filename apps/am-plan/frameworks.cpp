#include "frameworks.h"

#include <iostream>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"
#include "options.h"

namespace am_plan {

void add_framework(CLI::App& command, const char* name, const char* help, std::string& framework,
                   bool required) {
  std::vector<std::string> names;
  for (const auto& one : am::frameworks::all_frameworks()) names.emplace_back(one.name);
  add_option(command, {name, "FRAMEWORK", help, required, std::move(names)}, framework);
}

const am::frameworks::Framework& framework_of(const std::string& name) {
  const am::frameworks::Framework* framework = am::frameworks::find_framework(name);
  AM_ASSERT(framework != nullptr, "the command line checks the name");
  return *framework;
}

void print_notes(const std::vector<std::string>& notes, const am_apps::Output& output) {
  for (const std::string& note : notes) {
    std::cerr << am::term::fold(
        am::cat(output.err.paint(am::term::Role::kNote, "note"), ": ", am::term::echo(note), "\n"),
        output.err);
  }
}

}  // namespace am_plan
