// Checkpoints of accelerate and transformers' Trainer of a model under FSDP ("checkpoint-500"),
// with the hub's names: folders of torch.distributed.checkpoint, pytorch_model_fsdp_0/ for the
// model and optimizer_0/ for its optimizer, or, with use_dcp=False, a torch.save file per rank,
// pytorch_model_fsdp_0_rank3.bin and optimizer_0_rank3.bin.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

bool is_accelerate_folder(const std::filesystem::path& path);
std::unique_ptr<stored::TensorSource> open_accelerate_folder(const std::filesystem::path& path,
                                                             stored::OnDamage damage);

}  // namespace am::frameworks
