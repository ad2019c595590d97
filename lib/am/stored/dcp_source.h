// Opens PyTorch's distributed checkpoints (DCP). Their tensors are assembled from the chunks in all
// data files. Pickled code is never executed (formats/pickle.h).
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
// Opens a folder; its data files are opened when they are first read. `known` has the damage that
// the caller found before; damage() lists it first.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              std::vector<StoredProblem> known = {});
// Opens a folder whose `.metadata` has been read already.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              formats::DcpMetadata metadata);

// Verifies a folder without reading values: checks that each slice of a data file is a complete
// torch.save archive, whose tensor has the dtype and shape in `.metadata`.
void verify_dcp_slices(const std::filesystem::path& folder, const VerifyCalls& calls);

}  // namespace am::stored
