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

// Pairs of a tensor's name and the path of its file, in the order of the index. The paths are
// relative to the folder of the index.
using WeightIndex = std::vector<std::pair<std::string, std::string>>;

// Reads the index file `path`. Throws Error(kIo) if the index file cannot be read. Throws
// Error(kFormat) if it is not a JSON object with a "weight_map" that maps names to files in or
// below its folder.
WeightIndex read_weight_index(const std::filesystem::path& path);

// Normalises `text`, the path of a file relative to a folder. Returns nullopt if the path is
// absolute, leads out of the folder, is the folder itself, or ends with a slash.
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

// Compares the index in the file `path` with the contents of the listed files, and returns the
// differences as problems. Ignores the files in `missing`. `file_of` returns the path of the file
// that contains a tensor; an empty path if no file contains the tensor. With OnDamage::kRefuse,
// throws Error(kFormat) if a tensor is in another file than the index states: the index and the
// files are then from different saves. For a tensor that no file contains, returns a problem and
// does not throw, because the model may not need the tensor.
std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, OnDamage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of);

}  // namespace am::stored
