// The data files of one checkpoint, one a rank, beside the index that says what is in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>

#include "am/base/error.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/shard_index.h"

namespace am::run_folder {

// The index, after a look at each file: it is there, whole, and of the same save as `info`. Throws
// Error(kIo) for one that is missing, Error(kFormat) for one that is cut off or another save's.
// Data is not read.
ShardIndex open_index(const std::filesystem::path& folder, const CheckpointInfo& info);

// The same without the look at the files. Throws for an index that is another save's.
ShardIndex read_index(const std::filesystem::path& folder, const CheckpointInfo& info);
// What open_index would throw for each file, by the number of the file.
std::map<size_t, Error> damaged_files(const std::filesystem::path& folder,
                                      const CheckpointInfo& info, const ShardIndex& index);

}  // namespace am::run_folder
