// Hugging Face weights: one safetensors file, or a folder of safetensors files, with or without
// model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a .safetensors file or a folder with Hugging Face weights:
// model.safetensors, its index, or other .safetensors files. If the folder has pytorch_model.bin or
// its index, other .safetensors files do not count.
bool is_hf_source(const std::filesystem::path& path);
std::unique_ptr<TensorSource> open_hf_source(const std::filesystem::path& path,
                                             OnDamage damage = OnDamage::kRefuse);

}  // namespace am::stored
