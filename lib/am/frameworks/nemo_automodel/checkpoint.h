// Checkpoint folders of NeMo AutoModel, for example "epoch_0_step_99". The subfolder model/
// contains the weights, with the names of the Hugging Face hub, as shards of each rank or
// consolidated; optim/ contains the optimizer states in the format of torch.distributed.checkpoint.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether the path is a checkpoint folder of AutoModel. Such a folder contains model/ with
// weights, and at least one of optim/, config.yaml and losses.json; if AutoModel did not complete
// the folder, it contains model/ and .incomplete. Also returns true for the parent folder of
// checkpoints if its link LATEST points to such a folder.
bool is_automodel_folder(const std::filesystem::path& path);
// Opens the checkpoint; in a parent folder, the one to which LATEST points. A file `.incomplete` in
// the folder shows that AutoModel did not complete it: with `damage` = kRefuse, throws
// Error(kFormat); otherwise, damage() of the source lists the error.
std::unique_ptr<stored::TensorSource> open_automodel_folder(const std::filesystem::path& path,
                                                            stored::OnDamage damage);

}  // namespace am::frameworks
