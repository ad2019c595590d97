// NeMo AutoModel's folders ("epoch_0_step_99"): the hub's names in model/, as shards or
// consolidated, and optimizer states of torch.distributed.checkpoint in optim/.
#pragma once

#include <filesystem>
#include <memory>

#include "am/stored/tensor_source.h"

namespace am::stored {

// A folder with model/ and its optim/, config.yaml or losses.json, or one that was not finished; or
// the folder of all, whose link LATEST names one.
bool is_automodel_folder(const std::filesystem::path& path);
// Throws Error(kFormat) for one that was not finished, which has a file `.incomplete`, unless
// damage is listed.
std::unique_ptr<TensorSource> open_automodel_folder(const std::filesystem::path& path,
                                                    Damage damage);

}  // namespace am::stored
