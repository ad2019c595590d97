// Opens PyTorch's distributed checkpoints (DCP). A tensor is assembled from its chunks in all data
// files. Pickled code is never executed (formats/pickle.h).
// Tensors are named as state_keys.h describes. optimizer_tensors() also lists the tensors that are
// not parameters: tensors outside of a nested dict "model", and torchtitan's train_state,
// lr_scheduler and dataloader.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a folder with a `.metadata` file.
bool is_dcp_source(const std::filesystem::path& path);
// Opens a folder. Data files are opened when they are first read. `known`: problems that the caller
// has found before; damage() lists them first.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              std::vector<StoredProblem> known = {});
// Overload for a folder whose `.metadata` the caller has read already.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              formats::DcpMetadata metadata);

// Verifies the structure of a folder without reading values: each stored chunk must be a complete
// torch.save archive of a tensor with the dtype and shape in `.metadata`.
void verify_dcp_slices(const std::filesystem::path& folder, const VerifyCalls& calls);

}  // namespace am::stored
