// An am-run checkpoint as a tensor source: boxes from every rank's file, joined into global
// tensors.
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

// Returns the boxes of a tensor that a rank reads; boxes may be empty. If the list is empty, only
// the tensor's name, dtype and shape are known; nullopt stands for the whole tensor.
using WantedBoxes = std::function<std::optional<std::vector<mesh::Box>>(const std::string& name)>;
// Opens one rank's part of a checkpoint that some rank has checked (run_folder's
// require_complete()). Keeps only the stored boxes of the index that intersect wanted ones, and
// opens only the data files that it reads, whose labels and sizes it checks then. read() and the
// shards of tensors() cover only these boxes. Throws Error(kFormat) if the index is invalid or the
// wanted boxes are not complete in it.
std::unique_ptr<TensorSource> open_automesh_part(const std::filesystem::path& folder,
                                                 const WantedBoxes& wanted);

}  // namespace am::stored
