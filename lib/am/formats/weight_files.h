// Finds the weights in a folder by file names only.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

// Names of pickled weights in transformers. transformers prefers these files to all safetensors
// files except model.safetensors and model.safetensors.index.json.
inline constexpr const char* kPytorchModel = "pytorch_model.bin";
inline constexpr const char* kPytorchModelIndex = "pytorch_model.bin.index.json";

struct WeightFiles {
  // Whether the folder contains safetensors weights. If the folder also contains pytorch_model.bin
  // or pytorch_model.bin.index.json, only model.safetensors and model.safetensors.index.json count.
  bool safetensors = false;
  // Name of the alphabetically first file with pickled weights, for example pytorch_model.bin, or
  // with the index of pickled weights; empty if there is none.
  std::string pickled;
};

// Returns which weights a folder contains. If the folder cannot be read, the result contains none.
WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
