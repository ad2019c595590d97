// An am-run checkpoint as a tensor source: boxes from every rank's file, joined into global
// tensors.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

std::unique_ptr<TensorSource> open_automesh_source(const std::filesystem::path& folder,
                                                   Damage damage);

}  // namespace am::stored
