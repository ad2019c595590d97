// The files of one checkpoint, one a rank.
#pragma once

#include <filesystem>
#include <vector>

#include "am/formats/safetensors.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::run_folder {

// The files of all ranks, their headers read. Throws Error(kIo) for one that is missing,
// Error(kFormat) for one that is cut off or belongs to another save than `info`.
std::vector<formats::SafetensorsFile> open_rank_files(const std::filesystem::path& folder,
                                                      const CheckpointInfo& info);

}  // namespace am::run_folder
