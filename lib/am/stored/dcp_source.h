// PyTorch's distributed checkpoints (DCP) as a tensor source: chunks of all data files, joined into
// global tensors. Pickled code is never executed (formats/pickle.h).
// Names follow state_keys.h. Tensors beside a nested "model", and torchtitan's train_state,
// lr_scheduler and dataloader, are not parameters and are listed with the optimizer's tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a folder with a `.metadata` file.
bool is_dcp_source(const std::filesystem::path& path);
// `known`: damage found earlier, which precedes the source's own in damage(). Data files are opened
// when they are read.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              std::vector<StoredProblem> known = {});
// Opens a folder whose `.metadata` has been read already.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              formats::DcpMetadata metadata);

// The part of verify() of a folder that reads no values: checks that each slice is a complete
// archive, with the dtype and shape in `.metadata`.
void verify_dcp_slices(const std::filesystem::path& folder, const VerifyCalls& calls);

}  // namespace am::stored
