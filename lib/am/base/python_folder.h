// Finds automesh's Python package, which is installed beside the libraries.
#pragma once

#include <filesystem>
#include <optional>

namespace am {

// Returns the folder that contains the Python package automesh, for PYTHONPATH; nothing if the
// package is not installed.
std::optional<std::filesystem::path> python_folder();

}  // namespace am
