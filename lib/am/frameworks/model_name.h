// Compares the family and size in a model's name with a configuration.
//
//   contradiction("Qwen/Qwen3-8B", llama_8b);   // "has model_type = \"llama\""
//   contradiction("llama-3-70b", llama_8b);     // "has 8.03 billion parameters"
#pragma once

#include <string>
#include <string_view>

#include "am/model/config.h"

namespace am::frameworks {

// Returns an empty string if the name agrees or contains nothing recognisable. Accepts names from a
// hub, folders, classes and a framework's own list. Sizes agree within a factor of 1.7: names
// round, and some exclude the embedding.
std::string contradiction(std::string_view name, const model::ModelConfig& model);

}  // namespace am::frameworks
