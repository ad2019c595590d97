// Information in a trainer's own files beside the tensors: its step, and its optimizer's sharding.
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
  std::string note;  // may be empty
};

// Throws Error(kFormat) for a pickle with globals that PyTorch would execute. The note mentions a
// pickle that cannot be read: the tensors can be read without it.
TrainerFacts olmo_facts(const std::filesystem::path& step_folder);
TrainerFacts megatron_facts(const std::filesystem::path& folder,
                            const formats::DcpMetadata& metadata);

}  // namespace am::frameworks
