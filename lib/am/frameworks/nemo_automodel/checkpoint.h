// Checkpoint folders of NeMo AutoModel, for example "epoch_0_step_99". model/ has the weights with
// the Hugging Face hub's names, as shards of each rank or consolidated. optim/ has the optimizer
// states in the format of torch.distributed.checkpoint.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether the path is a checkpoint folder of AutoModel, complete or not: it has model/, and
// also optim/, config.yaml or losses.json. Also true for a parent folder whose link LATEST points
// to such a folder.
bool is_automodel_folder(const std::filesystem::path& path);
// Opens the checkpoint. If AutoModel did not complete it, the folder contains a file `.incomplete`;
// then throws Error(kFormat) if `damage` is kRefuse, otherwise lists this as damage.
std::unique_ptr<stored::TensorSource> open_automodel_folder(const std::filesystem::path& path,
                                                            stored::OnDamage damage);

}  // namespace am::frameworks
