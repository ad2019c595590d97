// `--set section.key=value`, laid over the document before it is checked.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/config/value.h"

namespace am::config {

// What --set values are reported to stand in; the option's text is the source line.
inline constexpr const char* kOverrideFile = "--set";

// Replaces or adds values in `root`, in the order given. The value is TOML; one that is not, and is
// not meant to be (no quote or bracket begins it), is text: `--set strategy.name=ddp`.
void apply_overrides(const std::vector<Override>& overrides, Value& root, Diagnostics& found);

}  // namespace am::config
