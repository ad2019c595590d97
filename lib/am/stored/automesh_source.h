// Opens a checkpoint that am-run wrote. Each rank's file has boxes of many tensors; a tensor is
// assembled from its boxes in all files.
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

// Function that returns the boxes of the named tensor that a rank will read; boxes without elements
// are allowed. An empty list: the rank needs only the tensor's name, dtype and shape. nullopt: the
// rank reads the full tensor.
using WantedBoxes = std::function<std::optional<std::vector<mesh::Box>>(const std::string& name)>;
// Opens the part of a checkpoint that one rank needs. At least one rank must have checked the
// checkpoint with run_folder::require_complete() before. Keeps only the stored boxes that intersect
// wanted boxes: read() cannot read other boxes, and tensors() does not list them as shards. Checks
// the label and size of a data file at the first read of that file. Throws Error(kFormat) if the
// index is invalid, or if its boxes do not cover the wanted boxes exactly once.
std::unique_ptr<TensorSource> open_automesh_part(const std::filesystem::path& folder,
                                                 const WantedBoxes& wanted);

}  // namespace am::stored
