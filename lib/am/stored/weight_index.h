// Indexes of weights in several files (model.safetensors.index.json, pytorch_model.bin.index.json):
// which file has each tensor.
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

// Throws Error(kIo) when it cannot be read, Error(kFormat) when it is no object whose "weight_map"
// gives each name a file in the index's folder or below it.
WeightIndex read_weight_index(const std::filesystem::path& path);

// The file that `text` names in a folder or below it, relative to that folder and normalised;
// nothing for the folder itself and for a path that leads out of it.
std::optional<std::filesystem::path> path_inside(std::string_view text);

struct IndexedFiles {
  std::vector<std::filesystem::path> there;  // each once
  std::set<std::string> missing;             // as the index names them
  std::vector<StoredProblem> problems;       // of the missing ones
};
// The files that an index at `path` names. Throws Error(kIo) for a missing one where damage is
// refused.
IndexedFiles indexed_files(const std::filesystem::path& path, const WeightIndex& index,
                           Damage damage);

// Compares an index with what its files hold. `file_of`: the file of a tensor, empty where none has
// it. A tensor in another file than the index says is of another save: Error(kFormat) where damage
// is refused. A tensor that no file has is a problem only for a model that needs it: it is reported
// as such. Files in `missing` are left out.
std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, Damage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of);

}  // namespace am::stored
