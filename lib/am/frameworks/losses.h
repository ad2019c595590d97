// Decides which settings without an equivalent in a plan affect the job's layout or numbers.
//
// Most settings that an importer skips concern logging or data. But an unsupported degree of
// parallelism, 8-bit products or state on disk change the job, and in a long list of skipped
// settings the user would not notice them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::frameworks {

// Returns the aspect of the job that a plan without the setting loses ("the layout"); nothing if
// the setting is off or harmless. `key` is a path joined by dots, or a flag without its dashes.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::frameworks
