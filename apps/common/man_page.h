// Generates the manual pages of a tool, in troff.
//
//   am-plan man | man -l -
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/description.h"

namespace am_apps {

// Returns the manual page of the tool itself, with `version` in the footer.
std::string man_page(const CommandDescription& tool, const std::string& version);
// Returns the manual page of one command, for example the page "am-plan-check".
std::string man_page(const CommandDescription& tool, const CommandDescription& command,
                     const std::string& version);

// Returns pairs of file name and text of all manual pages. The files of am-plan are, for example,
// "am-plan.1", "am-plan-check.1" and so on.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandDescription& tool,
                                                           const std::string& version);

}  // namespace am_apps
