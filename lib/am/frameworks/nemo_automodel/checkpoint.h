// Checkpoint folders of NeMo AutoModel, for example "epoch_0_step_99". The subfolder model/
// contains the weights, with the names of the Hugging Face hub, as shards of each rank or
// consolidated; optim/ contains the optimizer states in the format of torch.distributed.checkpoint.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether the path is a checkpoint folder of AutoModel. A complete checkpoint folder
// contains model/ with weights, and at least one of optim/, config.yaml and losses.json. An
// incomplete checkpoint folder contains model/ and .incomplete. Also returns true for a parent
// folder whose link LATEST points to a checkpoint folder.
bool is_automodel_folder(const std::filesystem::path& path);
// Opens the checkpoint folder or, in a parent folder, the checkpoint to which LATEST points. For an
// incomplete checkpoint folder, throws Error(kFormat) if `damage` is kRefuse; otherwise, damage()
// of the source reports that the checkpoint is incomplete.
std::unique_ptr<stored::TensorSource> open_automodel_folder(const std::filesystem::path& path,
                                                            stored::OnDamage damage);

}  // namespace am::frameworks
