// The data files of one checkpoint, one per rank, and the index of their contents.
//
//   require_complete(folder, info);   // by one rank of a job, for all
//   const ShardIndex index = read_index(folder, info, {.wants = is_parameter});
//   require_data_file(folder, info, index, 3, beginning, file_bytes);   // before values are read
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>

#include "am/base/error.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/shard_index.h"

namespace am::run_folder {

// Reads the index without accessing the data files. Throws if the index belongs to another save.
ShardIndex read_index(const std::filesystem::path& folder, const CheckpointInfo& info,
                      const IndexVisit& visit = {});

// Throws Error(kFormat) unless file `number`, which begins with `beginning` and has `file_bytes`
// bytes, is whole and of the same save as `info`.
void require_data_file(const std::filesystem::path& folder, const CheckpointInfo& info,
                       const ShardIndex& index, size_t number, std::string_view beginning,
                       uint64_t file_bytes);
// Returns the errors of damaged files, by file number: Error(kIo) for a missing file, otherwise the
// error of require_data_file(). Does not read the data. Checks several files in parallel: on a
// shared file system each takes milliseconds.
std::map<size_t, Error> damaged_files(const std::filesystem::path& folder,
                                      const CheckpointInfo& info, const ShardIndex& index);
// Throws the first error of damaged_files().
void require_data_files(const std::filesystem::path& folder, const CheckpointInfo& info,
                        const ShardIndex& index);
// Reads and checks the whole index without keeping it in memory, and checks each file. Throws as
// read_index() and require_data_files() do.
void require_complete(const std::filesystem::path& folder, const CheckpointInfo& info);

}  // namespace am::run_folder
