// PyTorch's distributed checkpoints (DCP) as a tensor source: chunks of every data file, joined
// into global tensors. Nothing of them is executed (formats/pickle.h).
// Names are state_keys.h's; tensors beside a nested "model", and torchtitan's train_state,
// lr_scheduler and dataloader, are listed with the optimizer's: they are no parameters.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// A folder with a `.metadata`.
bool is_dcp_source(const std::filesystem::path& path);
// `known`: damage that was seen before, which the source's damage() begins with. Data files are
// looked for when they are read.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              std::vector<StoredProblem> known = {});
// The same with its `.metadata`, which was read.
std::unique_ptr<TensorSource> open_dcp_source(const std::filesystem::path& folder,
                                              formats::DcpMetadata metadata);

// What verify() of a folder looks at without its values: each slice is a whole archive, of the
// dtype and shape that `.metadata` says.
void verify_dcp_slices(const std::filesystem::path& folder, const VerifyCalls& calls);

}  // namespace am::stored
