// Which weights lie in a folder, by their files' names alone.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

struct WeightFiles {
  // A file of them or an index; of another name than transformers', only without pytorch_model.bin.
  bool safetensors = false;
  std::string pickled;  // a file of PyTorch's pickle format, such as pytorch_model.bin; or empty
};

WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
