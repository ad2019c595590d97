// Detects configs of models with quantised weights, which are stored as codes and scales.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::model {

// Returns the quantisation method that the text of a config.json names: quant_method of
// quantization_config, or of compression_config in older files. Returns "unknown" if this object
// has no quant_method, and an empty string if the config has neither object or is not JSON.
std::string quantization_of(const std::string& config_text);

// Removes the quantisation keys from the config.
void remove_quantization(Json& config);

}  // namespace am::model
