// Decides which settings without an equivalent in a plan affect the job's layout or the values that
// it computes.
//
// Most settings that an import skips concern logging or data. But some of them change the job, such
// as an unsupported degree of parallelism, matmuls in 8 bits, or optimizer state on disk. In a long
// list of skipped settings the user would not notice these.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::frameworks {

// Returns the aspect of the job that changes if a plan omits the setting, for example "the layout".
// Returns nullopt if the setting is off or does not change the job. `key`: names of tables and
// setting joined by dots, or a flag without its dashes.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::frameworks
