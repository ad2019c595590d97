// Reads model.safetensors.index.json and pytorch_model.bin.index.json, which map each tensor's name
// to the file that contains it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/stored/tensor_source.h"

namespace am::stored {

// Pairs of a tensor's name and its file, in the order of the index. File paths are relative to the
// folder of the index.
using WeightIndex = std::vector<std::pair<std::string, std::string>>;

// Throws Error(kIo) if the file cannot be read, and Error(kFormat) if it is not a JSON object whose
// "weight_map" maps names to files in or below the folder of the index.
WeightIndex read_weight_index(const std::filesystem::path& path);

// Returns `text` as a normalised relative path of a file in or below a folder; nullopt if the path
// is the folder itself or leads out of the folder.
std::optional<std::filesystem::path> path_inside(std::string_view text);

struct IndexedFiles {
  std::vector<std::filesystem::path> there;  // paths of the files that exist, each once
  std::set<std::string> missing;             // names of files that do not exist, as in the index
  std::vector<StoredProblem> problems;       // one for each missing file
};
// Returns the files that an index lists; `path` is the index file. With OnDamage::kRefuse, throws
// Error(kIo) if a listed file is missing.
IndexedFiles indexed_files(const std::filesystem::path& path, const WeightIndex& index,
                           OnDamage damage);

// Compares an index with the contents of its files, and returns the differences as problems.
// Ignores files in `missing`. `file_of` returns the path of the file that contains a tensor; an
// empty path if no file does. With OnDamage::kRefuse, throws Error(kFormat) if a tensor is in
// another file than in the index, because the files are then from another save. A tensor that no
// file contains is never an error here, because the model may not need it.
std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, OnDamage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of);

}  // namespace am::stored
