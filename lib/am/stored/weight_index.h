// Indexes of weights in several files (model.safetensors.index.json, pytorch_model.bin.index.json):
// the file of each tensor.
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

// Name and file, in the order of the index. Files are paths inside the index's folder.
using WeightIndex = std::vector<std::pair<std::string, std::string>>;

// Throws Error(kIo) if the file cannot be read, Error(kFormat) if it is not an object whose
// "weight_map" maps each name to a file in or below the index's folder.
WeightIndex read_weight_index(const std::filesystem::path& path);

// Returns the file that `text` names in or below a folder, relative to that folder and normalised;
// nothing for the folder itself and for a path that leads out of it.
std::optional<std::filesystem::path> path_inside(std::string_view text);

struct IndexedFiles {
  std::vector<std::filesystem::path> there;  // without duplicates
  std::set<std::string> missing;             // as named in the index
  std::vector<StoredProblem> problems;       // one for each missing file
};
// Returns the files that an index at `path` names. Throws Error(kIo) for a missing one if damage is
// refused.
IndexedFiles indexed_files(const std::filesystem::path& path, const WeightIndex& index,
                           OnDamage damage);

// Compares an index with the contents of its files. `file_of` returns the file that contains a
// tensor, empty if there is none. A tensor in another file than in the index is of another save:
// Error(kFormat) if damage is refused. A tensor in no file matters only if the model needs it: it
// is returned as a problem and never throws. Files in `missing` are skipped.
std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, OnDamage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of);

}  // namespace am::stored
