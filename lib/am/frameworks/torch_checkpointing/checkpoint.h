// Checkpoint folders of the Python package torch_checkpointing 0.1. An item is a top-level part of
// the saved state, for example the model or the optimizer. Each rank writes one torch.save file per
// item, for example "optimizer_3.pt". The folder contains metadata.pkl if the items can be loaded
// on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether the path is a folder with a metadata.pkl of torch_checkpointing, or with
// model_0.pt and either a metadata.pkl or model_1.pt.
bool is_torch_checkpointing(const std::filesystem::path& path);
// Opens the checkpoint. If metadata.pkl exists, it lists the files, and the positions of their
// tensors in the global tensors. The position that a DTensor in a file contains must match the
// position in metadata.pkl. Files of items that metadata.pkl does not describe are found by the
// form of their names. Throws Error(kFormat) for a metadata.pkl that
// TorchCheckpointingMetadata::read rejects.
std::unique_ptr<stored::TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                               stored::OnDamage damage);

}  // namespace am::frameworks
