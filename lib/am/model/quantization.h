// Detects configs of quantised weights, which are stored as codes and scales instead of plain
// values.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::model {

// Returns the quant_method of the config's quantization_config ("unknown" if it names none), or an
// empty string if there is no such key or the text is not JSON.
std::string quantization_of(const std::string& config_text);

// Removes the quantisation keys from the config.
void remove_quantization(Json& config);

}  // namespace am::model
