// Folders of torch_checkpointing 0.1: for each item of a state and each rank a file of torch.save
// ("model_0.pt", "optimizer_3.pt"), and metadata.pkl where items can be loaded on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

bool is_torch_checkpointing(const std::filesystem::path& path);
// DTensors in the files say where their parts lie. Throws Error(kFormat) for tensors whose parts
// only metadata.pkl describes, for items in other formats, and for files outside of the folder.
std::unique_ptr<TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                       Damage damage);

}  // namespace am::stored
