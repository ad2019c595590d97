// Checkpoint folders of torch_checkpointing 0.1. They have a torch.save file for each item (model,
// optimizer, ...) and rank, for example "optimizer_3.pt", and metadata.pkl if the items can be
// loaded on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

bool is_torch_checkpointing(const std::filesystem::path& path);
// Opens the checkpoint. metadata.pkl, if it exists, names the files and the places of their tensors
// in the global tensors. A DTensor in a file also has its place, which must agree. The files of
// items that metadata.pkl does not name are found by their names. Throws Error(kFormat) for a
// metadata.pkl that TorchCheckpointingMetadata::read refuses.
std::unique_ptr<stored::TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                               stored::OnDamage damage);

}  // namespace am::frameworks
