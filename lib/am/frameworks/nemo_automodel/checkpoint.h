// NeMo AutoModel's folders ("epoch_0_step_99"): weights with the hub's names in model/, as shards
// or consolidated, and optimizer states of torch.distributed.checkpoint in optim/.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether the path is AutoModel's folder, finished or not (model/, and optim/, config.yaml
// or losses.json), or the parent folder whose link LATEST names such a folder.
bool is_automodel_folder(const std::filesystem::path& path);
// Throws Error(kFormat) for an unfinished folder, which contains a file `.incomplete`, unless
// damage is listed.
std::unique_ptr<stored::TensorSource> open_automodel_folder(const std::filesystem::path& path,
                                                            stored::OnDamage damage);

}  // namespace am::frameworks
