// Decides which settings of an imported file change the job although a plan cannot express them.
//
// Most settings that an import ignores concern logging or data. A few of them change the layout or
// the computed values, for example an unsupported degree of parallelism, matmuls in 8 bits, or
// optimizer state on disk. A user would overlook them in the list of ignored settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::frameworks {

// Returns the aspect of the job that changes if the setting is omitted, for example "the layout".
// Returns nullopt if nothing changes, for example because the setting is off. `key`: a flag, with
// or without dashes, or the names of tables and setting joined by dots.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::frameworks
