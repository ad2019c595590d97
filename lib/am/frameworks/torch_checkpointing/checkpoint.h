// Folders of torch_checkpointing 0.1: a torch.save file for each item of a state and each rank
// ("model_0.pt", "optimizer_3.pt"), and metadata.pkl if items can be loaded on other meshes.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

bool is_torch_checkpointing(const std::filesystem::path& path);
// metadata.pkl, if present, names the files and the places of their tensors in the global tensors;
// a DTensor also contains its place, which must agree. Items that metadata.pkl does not name are
// found by their files' names. Throws Error(kFormat) for content that metadata.h refuses.
std::unique_ptr<stored::TensorSource> open_torch_checkpointing(const std::filesystem::path& path,
                                                               stored::OnDamage damage);

}  // namespace am::frameworks
