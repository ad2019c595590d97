// Weights of torch.save (.pt, .pth, .bin, .ckpt) as a tensor source: the tensors of dicts and
// lists, nested ones included, under names joined by dots (state_keys.h). Nothing of it is
// executed.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// A file by that name that begins as one of torch.save does, of today's format or an older one; or
// a folder that has such weights: pytorch_model.bin, the files of pytorch_model.bin.index.json,
// accelerate's pytorch_model_fsdp.bin (with optimizer.bin beside it), or one file of any such name.
bool is_torch_source(const std::filesystem::path& path);
// Throws Error(kFormat) for tar files, which PyTorch wrote before 2017, with the way out, and for a
// folder whose files are several models.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path,
                                                Damage damage = Damage::kRefused);

}  // namespace am::stored
