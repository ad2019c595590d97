// Detects configs of models with quantised weights, which are stored as codes and scales.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::model {

// Returns the quantisation method in the text of a config.json: the text quant_method in the object
// quantization_config, or in compression_config (older files). Returns "unknown" if the object has
// no quant_method. Returns an empty string if the config has neither object or is not JSON.
std::string quantization_of(const std::string& config_text);

// Removes the quantisation keys from the config.
void remove_quantization(Json& config);

}  // namespace am::model
