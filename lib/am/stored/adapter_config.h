// Checks PEFT's adapter_config.json against a plan's adapters.
#pragma once

#include <string>
#include <string_view>

#include "am/model/spec.h"

namespace am::stored {

// Throws Error(kFormat) if `text`, the contents of adapter_config.json, describes adapters other
// than A and B of one rank and one scaling factor, or if its rank or factor differs from those of
// the plan, `ours`. `file` is the file's name in messages.
void check_adapter_config(std::string_view text, const std::string& file,
                          const model::AdapterSpec& ours);

}  // namespace am::stored
