// Checks PEFT's adapter_config.json against a plan's adapters.
#pragma once

#include <string>
#include <string_view>

#include "am/model/spec.h"

namespace am::stored {

// `file` is the name in messages. Throws Error(kFormat) if the text describes adapters other than A
// and B of one rank and one scaling factor, or if rank or factor differs from `ours`.
void check_adapter_config(std::string_view text, const std::string& file,
                          const model::AdapterSpec& ours);

}  // namespace am::stored
