// A file of torch.save (.pt, .pth, .bin, .ckpt) as a tensor source: the tensors of its dicts,
// nested ones included, under names joined by dots (state_keys.h). Nothing of it is executed.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// A file by that name that begins as one of torch.save does, of today's format or an older one.
bool is_torch_source(const std::filesystem::path& path);
// Throws Error(kFormat) for tar files, which PyTorch wrote before 2017, with the way out.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path);

}  // namespace am::stored
