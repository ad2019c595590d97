// PEFT's adapter_config.json: whether its adapters are a plan's.
#pragma once

#include <string>
#include <string_view>

#include "am/model/spec.h"

namespace am::stored {

// `file` is the name in messages. Throws Error(kFormat) where the text describes adapters that are
// more than A and B of one rank and one factor, or whose rank or factor is not that of `ours`.
void check_adapter_config(std::string_view text, const std::string& file,
                          const model::AdapterSpec& ours);

}  // namespace am::stored
