// Checkpoint folders of torch_checkpointing 0.1. An item is a top-level part of the saved state,
// such as the model or the optimizer. Each rank has one torch.save file per item, for example
// "optimizer_3.pt". metadata.pkl exists if the items can be loaded on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

bool is_torch_checkpointing(const std::filesystem::path& path);
// Opens the checkpoint. If metadata.pkl exists, it lists the files, and the positions of their
// tensors in the global tensors. A DTensor in a file contains its own position, which must be the
// same. Files of items that metadata.pkl does not describe are found by the form of their names.
// Throws Error(kFormat) for a metadata.pkl that TorchCheckpointingMetadata::read rejects.
std::unique_ptr<stored::TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                               stored::OnDamage damage);

}  // namespace am::frameworks
