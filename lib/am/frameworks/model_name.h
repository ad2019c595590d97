// Compares the family and the size in a model's name with the model's config.
//
//   contradiction("Qwen/Qwen3-8B", llama_8b);   // "has model_type = \"llama\""
//   contradiction("llama-3-70b", llama_8b);     // "has 8.03 billion parameters"
#pragma once

#include <string>
#include <string_view>

#include "am/model/config.h"

namespace am::frameworks {

// Returns how `model` differs from `name`, as the end of a sentence. Empty if name and model agree,
// or if the name contains no known family or size. The name may be the name of a model on a hub, of
// a folder or of a class, or a framework's own name of a model. Two sizes agree if they differ by a
// factor of less than 1.7, because sizes in names are rounded, and some of them do not count the
// embedding.
std::string contradiction(std::string_view name, const model::ModelConfig& model);

}  // namespace am::frameworks
