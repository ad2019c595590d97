// What accelerate and transformers' Trainer save of a model under FSDP ("checkpoint-500"): folders
// of torch.distributed.checkpoint, pytorch_model_fsdp_0/ of the model and optimizer_0/ of AdamW's
// like, or with use_dcp=False a file of torch.save for each rank, pytorch_model_fsdp_0_rank3.bin
// and optimizer_0_rank3.bin; under the hub's names.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

bool is_accelerate_folder(const std::filesystem::path& path);
std::unique_ptr<TensorSource> open_accelerate_folder(const std::filesystem::path& path,
                                                     Damage damage);

}  // namespace am::stored
