// Applies `--set section.key=value` to the parsed document, before it is checked.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/config/value.h"

namespace am::config {

// File name in diagnostics about --set values; the option's text is the source line.
inline constexpr const char* kOverrideFile = "--set";

// Replaces or adds values in `root`, in the order of `overrides`. The right side of an override is
// a TOML value, or an unquoted text that does not start with a quote, bracket or brace, as in
// `--set strategy.name=ddp`.
void apply_overrides(const std::vector<Override>& overrides, Value& root, Diagnostics& found);

}  // namespace am::config
