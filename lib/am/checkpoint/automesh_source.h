// An am-run checkpoint as a tensor source: boxes from every rank's file, joined into global
// tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/checkpoint/checkpoint_info.h"
#include "am/checkpoint/tensor_source.h"
#include "am/formats/safetensors.h"

namespace am::checkpoint {

// The files of all ranks, their headers read. Throws Error(kIo) for one that is missing,
// Error(kFormat) for one that is cut off or belongs to another save than `info`.
std::vector<formats::SafetensorsFile> open_rank_files(const std::filesystem::path& folder,
                                                      const CheckpointInfo& info);

std::unique_ptr<TensorSource> open_automesh_source(const std::filesystem::path& folder);

}  // namespace am::checkpoint
