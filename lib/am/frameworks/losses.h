// Decides which settings without an equivalent in a plan affect the job's layout or numbers.
//
// Most settings that an importer skips concern logging or data. But an unsupported degree of
// parallelism, 8-bit products or state on disk change the job, and nobody reads the end of a list
// of thirty skipped keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::frameworks {

// Returns what a plan without the setting loses; nothing if it is off or harmless. `key` is a path
// joined by dots, or a flag without its dashes.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::frameworks
