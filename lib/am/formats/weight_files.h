// Which weights lie in a folder, by their files' names alone.
#pragma once

#include <filesystem>
#include <string>

namespace am::formats {

struct WeightFiles {
  bool safetensors = false;  // a file of them or an index
  std::string pickled;  // a file of PyTorch's pickle format, such as pytorch_model.bin; or empty
};

WeightFiles weight_files(const std::filesystem::path& folder);

}  // namespace am::formats
