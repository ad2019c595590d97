// Opens weights of any format: Hugging Face safetensors (a file, a folder, an index of several
// files), folders of torch.distributed.checkpoint, torch.save files, am-run's own checkpoints, and
// the checkpoint folders of training frameworks.
//
//   auto source = open_tensor_source("checkpoints/step-100");
//   source->tensors().front().name;
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether open_tensor_source recognises the format of the path. open_tensor_source may
// still throw, for example for a format that is not supported.
bool is_tensor_source(const std::filesystem::path& path);
// Returns whether open_tensor_source would read the path as plain torch.save files, because no
// other format matches.
bool is_pickled_source(const std::filesystem::path& path);
// Opens the weights. Throws Error(kIo) for a missing path, and Error(kFormat) for unknown or
// inconsistent files. Also throws Error(kFormat) for a framework's format that is recognised but
// not supported; the error's hint then describes how to convert the folder. If `damage` is kRefuse,
// also throws for truncated or missing files.
std::unique_ptr<stored::TensorSource> open_tensor_source(
    const std::filesystem::path& path, stored::OnDamage damage = stored::OnDamage::kRefuse);

}  // namespace am::frameworks
