// Manual pages of a tool, in troff.
//
//   am-plan man | man -l -
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/description.h"

namespace am_apps {

// Returns the page of the tool itself, with `version` in the footer.
std::string man_page(const CommandDescription& tool, const std::string& version);
// Returns the page of one command, "am-plan-check".
std::string man_page(const CommandDescription& tool, const CommandDescription& command,
                     const std::string& version);

// Returns all pages with their file names: {"am-plan.1", "..."}, {"am-plan-check.1", "..."}.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandDescription& tool,
                                                           const std::string& version);

}  // namespace am_apps
