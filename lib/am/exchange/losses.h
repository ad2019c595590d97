// Which settings that have no place in a plan change what would run: its layout, or its numbers.
//
// Most of what an importer leaves out is somebody's logging or data. A degree of parallelism under
// a name that is not understood, eight-bit products or state on a disk are another matter: a plan
// without them is another job's, and nobody reads the end of a list of thirty keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"

namespace am::exchange {

// What is lost with it; nothing when it is switched off, or harmless. `key` is a path joined by
// dots, or a flag without its dashes.
std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value);

}  // namespace am::exchange
