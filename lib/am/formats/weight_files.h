// Finds the weights in a folder by file names only.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

// Names of pickled weights in transformers. These files have precedence over all safetensors files
// except model.safetensors and model.safetensors.index.json.
inline constexpr const char* kPytorchModel = "pytorch_model.bin";
inline constexpr const char* kPytorchModelIndex = "pytorch_model.bin.index.json";

struct WeightFiles {
  // Whether the folder has safetensors weights. If it has pytorch_model.bin or
  // pytorch_model.bin.index.json, only model.safetensors and model.safetensors.index.json count.
  bool safetensors = false;
  // Name of a file in PyTorch's pickle format, such as pytorch_model.bin; empty if there is none.
  std::string pickled;
};

// Returns the weights in a folder; none if the folder cannot be read.
WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
