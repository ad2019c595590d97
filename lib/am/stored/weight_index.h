// model.safetensors.index.json: which of several files each tensor is in.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace am::stored {

// Name and file, in the order of the index.
using WeightIndex = std::vector<std::pair<std::string, std::string>>;

// Throws Error(kIo) when it cannot be read, Error(kFormat) when it is no object whose "weight_map"
// gives each name a file beside the index.
WeightIndex read_weight_index(const std::filesystem::path& path);

}  // namespace am::stored
