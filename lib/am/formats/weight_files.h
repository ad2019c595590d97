// Finds the weights in a folder by file names only.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

// transformers' names of pickled weights. Files of these names take precedence over safetensors
// files whose names transformers does not use.
inline constexpr const char* kPytorchModel = "pytorch_model.bin";
inline constexpr const char* kPytorchModelIndex = "pytorch_model.bin.index.json";

struct WeightFiles {
  // Whether there is a safetensors file or index. Files whose names transformers does not use count
  // only if there is no pytorch_model.bin.
  bool safetensors = false;
  // Name of a file in PyTorch's pickle format, such as pytorch_model.bin; empty if there is none.
  std::string pickled;
};

// Looks for weights in a folder.
WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
