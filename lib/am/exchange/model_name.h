// What a model's name says of its family and its size, held against a configuration.
//
//   contradiction("Qwen/Qwen3-8B", llama_8b);   // "has model_type = \"llama\""
//   contradiction("llama-3-70b", llama_8b);     // "has 8.03 billion parameters"
#pragma once

#include <string>
#include <string_view>

#include "am/model/config.h"

namespace am::exchange {

// Empty where the name agrees, or says nothing that is known. Names of a hub, of folders, of
// classes and of a framework's own list are read alike. A size agrees within a factor of 1.7: names
// round, and some leave out the embedding.
std::string contradiction(std::string_view name, const model::ModelConfig& model);

}  // namespace am::exchange
