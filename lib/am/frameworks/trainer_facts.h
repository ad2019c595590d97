// Facts that other frameworks store in a checkpoint beside the tensors: the training step, and the
// sharding and settings of the optimizer. These facts are read from the following files and keys:
//
//   train/rank0.pt                     OLMo-core: global_step
//   common.pt, common_state/shard_0_1  Megatron: iteration, content_metadata, optimizer
//
// The other contents of these pickles are not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"

namespace am::frameworks {

struct TrainerFacts {
  std::optional<int64_t> step;
  std::string note;  // for the user: the sharding, or a file that cannot be read; may be empty
};

// Read the facts of a checkpoint. The facts are empty if the framework's file is missing. Throw
// Error(kFormat) for a pickle that names a function that PyTorch would call and that may run code.
// A pickle that cannot be parsed is not an error, because the tensors do not depend on it; the note
// then mentions the file.
TrainerFacts olmo_facts(const std::filesystem::path& step_folder);
TrainerFacts megatron_facts(const std::filesystem::path& folder,
                            const formats::DcpMetadata& metadata);

// Calls `view` with the dict that Megatron stores in common.pt or common_state. This dict also
// contains the settings of the optimizer. Does not call `view` if the file does not exist or cannot
// be parsed.
void visit_megatron_common(const std::filesystem::path& folder,
                           const formats::DcpMetadata& metadata,
                           const std::function<void(const formats::PickleValue&)>& view);

}  // namespace am::frameworks
