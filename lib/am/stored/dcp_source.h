// Opens PyTorch's distributed checkpoints (DCP). A tensor is assembled from its chunks in all data
// files. Pickled code is never executed (formats/pickle.h).
// Tensors are named as state_keys.h describes. optimizer_tensors() also lists other tensors that
// are not parameters: torchtitan's train_state, lr_scheduler and dataloader. If the state contains
// a dict of parameters, for example "model", all tensors outside of this dict are listed there too.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Returns whether the path is a folder with a `.metadata` file.
bool is_dcp_source(const std::filesystem::path& path);
// Opens a folder. Data files are opened at their first read. `known`: problems that the caller has
// found before; damage() lists these problems first. Throws the errors of read_dcp_metadata(). Also
// throws Error(kFormat) if the chunks of a tensor do not cover the tensor exactly once, if two
// tensors would have the same name, or if the pickle in `.metadata` names a function that may run
// code.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              std::vector<StoredProblem> known = {});
// Overload for a folder whose `.metadata` the caller has read already.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              formats::DcpMetadata metadata);

// Verifies the structure of a folder without reading the values of tensors. Passes each problem to
// `calls.found`. Each stored chunk must be a complete torch.save archive of a tensor with the dtype
// and shape in `.metadata`. Each stored object that is not a tensor must be a complete archive.
void verify_dcp_slices(const std::filesystem::path& folder, const VerifyCalls& calls);

}  // namespace am::stored
