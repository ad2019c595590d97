// Checkpoint folders that accelerate and transformers' Trainer write for a model under FSDP, for
// example "checkpoint-500". Tensors have the names of the Hugging Face hub. By default, the
// subfolders pytorch_model_fsdp_0/ and optimizer_0/ contain the model and the optimizer in the
// format of torch.distributed.checkpoint. With use_dcp=False, an argument of accelerate's
// save_fsdp_model(), each rank writes torch.save files instead, for example
// pytorch_model_fsdp_0_rank3.bin and optimizer_0_rank3.bin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns the training step in a folder's trainer_state.json, which transformers' Trainer writes.
// Returns nullopt if this file does not exist or contains no step.
std::optional<int64_t> trainer_step(const std::filesystem::path& folder);

// Returns whether the folder contains pytorch_model_fsdp_0/ in the format of
// torch.distributed.checkpoint, or the model file of at least one rank.
bool is_accelerate_folder(const std::filesystem::path& path);
// Opens a folder for which is_accelerate_folder() is true. The model's config.json may be in the
// folder or in its parent folder.
std::unique_ptr<stored::TensorSource> open_accelerate_folder(const std::filesystem::path& path,
                                                             stored::OnDamage damage);

}  // namespace am::frameworks
