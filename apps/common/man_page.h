// Generates the manual pages of a tool, in troff.
//
//   am-plan man | man -l -
#pragma once

#include <string>

#include "common/description.h"

namespace am_apps {

// Options of the command `man`.
struct ManOptions {
  std::string command;  // command whose page is printed; empty: the page of the tool itself
  std::string folder;   // folder into which all pages are written; empty: one page is printed
  bool force = false;   // overwrite pages of the folder
};
void add_man(CLI::App& app, ManOptions& options);
// Prints one page or, if options.folder is set, writes all pages. Throws Error(kUsage) if the page
// of an unknown command is to be printed, or if a file exists and options.force is not set.
void run_man(const CommandDescription& tool, const ManOptions& options);

// Returns the manual page of the tool itself.
std::string man_page(const CommandDescription& tool);

}  // namespace am_apps
