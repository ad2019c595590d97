// Compares the family and the size in a model's name with the model's config.
//
//   contradiction("Qwen/Qwen3-8B", llama_8b);   // "has model_type = \"llama\""
//   contradiction("llama-3-70b", llama_8b);     // "has 8.03 billion parameters"
#pragma once

#include <string>
#include <string_view>

#include "am/model/config.h"

namespace am::frameworks {

// Returns how the model differs from its name, as the end of a sentence. Empty if they agree, or if
// the name contains no known family or size. The name may be that of a model on a hub, a folder, a
// class, or a framework's own name of a model. Sizes may differ by a factor of 1.7, because names
// have rounded sizes, some without the embedding.
std::string contradiction(std::string_view name, const model::ModelConfig& model);

}  // namespace am::frameworks
