// Hugging Face weights: one safetensors file, or a folder of them with or without
// model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// A .safetensors file, or a folder that holds one or an index.
bool is_hf_source(const std::filesystem::path& path);
std::unique_ptr<TensorSource> open_hf_source(const std::filesystem::path& path,
                                             Damage damage = Damage::kRefused);

}  // namespace am::stored
