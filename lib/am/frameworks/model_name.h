// Compares the model family and the size that a model's name contains with its configuration.
//
//   contradiction("Qwen/Qwen3-8B", llama_8b);   // "has model_type = \"llama\""
//   contradiction("llama-3-70b", llama_8b);     // "has 8.03 billion parameters"
#pragma once

#include <string>
#include <string_view>

#include "am/model/config.h"

namespace am::frameworks {

// Returns how the model differs from its name, as the end of a sentence; an empty string if they
// agree or the name contains no known family or size. The name may be that of a model on a hub, of
// a folder, of a class, or one that a framework uses. Sizes may differ by a factor of 1.7, because
// names have rounded sizes, some without the embedding.
std::string contradiction(std::string_view name, const model::ModelConfig& model);

}  // namespace am::frameworks
