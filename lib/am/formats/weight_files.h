// Which weights lie in a folder, by their files' names alone.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

// transformers' names of pickled weights. They come before safetensors of names that are not its
// own.
inline constexpr const char* kPytorchModel = "pytorch_model.bin";
inline constexpr const char* kPytorchModelIndex = "pytorch_model.bin.index.json";

struct WeightFiles {
  // A file of them or an index; of another name than transformers', only without pytorch_model.bin.
  bool safetensors = false;
  std::string pickled;  // a file of PyTorch's pickle format, such as pytorch_model.bin; or empty
};

WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
