// Manual pages of a tool, in troff.
//
//   am-plan man | man -l -
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/description.h"

namespace am_apps {

// The tool's own page; `version` stands in the footer.
std::string man_page(const CommandDescription& tool, const std::string& version);
// The page of one of its commands: "am-plan-check".
std::string man_page(const CommandDescription& tool, const CommandDescription& command,
                     const std::string& version);

// All of them with their files' names: {"am-plan.1", "..."}, {"am-plan-check.1", "..."}.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandDescription& tool,
                                                           const std::string& version);

}  // namespace am_apps
