// Folders of torch_checkpointing 0.1: for each item of a state and each rank a file of torch.save
// ("model_0.pt", "optimizer_3.pt"), and metadata.pkl where items can be loaded on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

bool is_torch_checkpointing(const std::filesystem::path& path);
// metadata.pkl, where there is one, names the files and says where parts lie; DTensors say it too,
// and both must agree. Items that it does not name are found by their files' names. Throws
// Error(kFormat) for what torch_checkpointing_metadata.h refuses.
std::unique_ptr<TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                       Damage damage);

}  // namespace am::stored
