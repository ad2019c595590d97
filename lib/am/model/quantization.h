// Whether a config.json describes quantised weights, which hold codes and scales instead of
// numbers.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::model {

// The quant_method of a config's quantization_config ("unknown" where it names none); empty where
// there is no such key, or the text is no JSON.
std::string quantization_of(const std::string& config_text);

// Takes the keys out that say so.
void remove_quantization(Json& config);

}  // namespace am::model
