// Applies `--set section.key=value` to the parsed document, before it is checked.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/config/value.h"

namespace am::config {

// File name in diagnostics about --set values; the option's text is the source line.
inline constexpr const char* kOverrideFile = "--set";

// Replaces or adds values in `root`, in the given order. The value is TOML. If it is not valid TOML
// and does not start like a quoted text or a bracket, it is text, as in `--set strategy.name=ddp`.
void apply_overrides(const std::vector<Override>& overrides, Value& root, Diagnostics& found);

}  // namespace am::config
