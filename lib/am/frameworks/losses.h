// Decides which settings of an imported file change the job although a plan cannot express them.
//
// Most settings that an import ignores concern logging or data. A few settings change the layout or
// the computed values, for example an unsupported degree of parallelism, matmuls in 8 bits, or
// optimizer states on disk. A user would overlook these few in the list of ignored settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::frameworks {

// Returns the aspect of the job that changes if a plan omits the setting, for example "the layout".
// Returns nullopt if nothing changes, for example because the setting is off. `key`: a flag, with
// or without leading dashes, or the names of the tables and of the setting, joined by dots.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::frameworks
