// Information that other frameworks store in a checkpoint beside the tensors: the training step,
// and how the optimizer is sharded. The files and keys that are read:
//
//   train/rank0.pt                     OLMo-core: global_step
//   common.pt, common_state/shard_0_1  Megatron: iteration, content_metadata
//
// The other contents of these pickles are not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "am/formats/dcp_metadata.h"

namespace am::frameworks {

struct TrainerFacts {
  std::optional<int64_t> step;
  std::string note;  // for the user: the optimizer's sharding, or an unreadable file; may be empty
};

// Read the facts of a checkpoint; return empty facts if their file does not exist. Throw
// Error(kFormat) for a pickle with globals that PyTorch would execute. An unreadable pickle is not
// an error, because the tensors can be read without it; the note mentions it.
TrainerFacts olmo_facts(const std::filesystem::path& step_folder);
TrainerFacts megatron_facts(const std::filesystem::path& folder,
                            const formats::DcpMetadata& metadata);

}  // namespace am::frameworks
