// Checks PEFT's adapter_config.json against a plan's adapters.
#pragma once

#include <string>
#include <string_view>

#include "am/model/spec.h"

namespace am::stored {

// Throws Error(kFormat) unless `text`, the contents of adapter_config.json, describes adapters of
// the same kind (LoRA or DoRA), rank and scaling factor as `ours`, the plan's adapters. `file` is
// the file's name in messages.
void check_adapter_config(std::string_view text, const std::string& file,
                          const model::AdapterSpec& ours);

}  // namespace am::stored
