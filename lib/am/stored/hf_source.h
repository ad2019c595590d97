// Hugging Face weights: one safetensors file, or a folder of them with or without
// model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a .safetensors file or a folder that contains one or an index.
bool is_hf_source(const std::filesystem::path& path);
std::unique_ptr<TensorSource> open_hf_source(const std::filesystem::path& path,
                                             OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
