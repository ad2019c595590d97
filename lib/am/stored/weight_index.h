// Reads model.safetensors.index.json and pytorch_model.bin.index.json, which say in which file of a
// folder each tensor is.
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

// Pairs of a tensor's name and its file, in the order of the index. A file is given by its path
// relative to the index's folder.
using WeightIndex = std::vector<std::pair<std::string, std::string>>;

// Throws Error(kIo) if the file cannot be read, Error(kFormat) if it is not an object whose
// "weight_map" maps each name to a file in or below the index's folder.
WeightIndex read_weight_index(const std::filesystem::path& path);

// Returns `text` as a normalised relative path of a file in or below a folder; nothing if the path
// is the folder itself or leads out of it.
std::optional<std::filesystem::path> path_inside(std::string_view text);

struct IndexedFiles {
  std::vector<std::filesystem::path> there;  // paths of the files that exist, each once
  std::set<std::string> missing;             // files that do not exist, as the index names them
  std::vector<StoredProblem> problems;       // one for each missing file
};
// Returns the files that the index at `path` names. With OnDamage::kRefuse, throws Error(kIo) if
// one of them is missing.
IndexedFiles indexed_files(const std::filesystem::path& path, const WeightIndex& index,
                           OnDamage damage);

// Compares an index with the contents of its files, and returns the differences as problems. Skips
// files in `missing`. `file_of` returns the path of the file that contains a tensor, or an empty
// path if no file does. With OnDamage::kRefuse, throws Error(kFormat) if a tensor is in another
// file than the index says, because the files are then of another save. Never throws for a tensor
// that no file contains, because it matters only if the model needs it.
std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, OnDamage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of);

}  // namespace am::stored
