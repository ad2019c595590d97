// Opens a checkpoint that am-run wrote. Its tensors are assembled from the boxes in every rank's
// file.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/mesh/shard.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

std::unique_ptr<TensorSource> open_automesh_source(const std::filesystem::path& folder,
                                                   OnDamage damage);

// Returns the boxes of a tensor that a rank will read; a box may have no elements. For an empty
// list of boxes, only the tensor's name, dtype and shape are kept; nullopt stands for the full
// tensor.
using WantedBoxes = std::function<std::optional<std::vector<mesh::Box>>(const std::string& name)>;
// Opens one rank's part of a checkpoint that some rank has checked with run_folder's
// require_complete(). Keeps only those stored boxes that intersect wanted ones: read() and the
// shards of tensors() cover no others. A data file is opened, and its label and size are checked,
// when it is first read. Throws Error(kFormat) if the index is invalid or does not cover the wanted
// boxes.
std::unique_ptr<TensorSource> open_automesh_part(const std::filesystem::path& folder,
                                                 const WantedBoxes& wanted);

}  // namespace am::stored
