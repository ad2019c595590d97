// Applies `--set section.key=value` to a parsed plan file, before its keys are checked.
#pragma once

#include <vector>

#include "am/config/plan.h"
#include "am/config/value.h"

namespace am::config {

// File name in diagnostics about --set values. The text after --set is shown as the source line.
inline constexpr const char* kOverrideFile = "--set";

// Replaces or adds values in `root`, the table of the whole plan file, in the order of `overrides`.
// The right side of an override is a TOML value, or an unquoted text that does not start with a
// quote, bracket or brace, as in `--set strategy.name=ddp`. Adds an error "plan.syntax" for an
// override of another form, and omits it.
void apply_overrides(const std::vector<Override>& overrides, Value& root, Diagnostics& found);

}  // namespace am::config
