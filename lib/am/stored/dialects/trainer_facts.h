// What a trainer's own files say beside the tensors: its step, and how its optimizer lies there.
//
//   train/rank0.pt                     OLMo-core: global_step
//   common.pt, common_state/shard_0_1  Megatron: iteration, content_metadata
//
// They are pickles of much else, all of which stays closed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "am/formats/dcp_metadata.h"

namespace am::stored {

struct TrainerFacts {
  std::optional<int64_t> step;
  std::string note;  // may be empty
};

// Throws Error(kFormat) for a pickle that names what PyTorch would run. One that cannot be read is
// said to be so in the note: the tensors do without.
TrainerFacts olmo_facts(const std::filesystem::path& step_folder);
TrainerFacts megatron_facts(const std::filesystem::path& folder,
                            const formats::DcpMetadata& metadata);

}  // namespace am::stored
