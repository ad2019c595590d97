// Checks of the data files of a checkpoint, one per rank, and of the index of their contents.
//
//   require_complete(folder, info);   // called by only one rank of a job
//   const ShardIndex index = read_index(folder, info, {.wants = is_parameter});
//   require_data_file(folder, info, index, 3, beginning, file_bytes);   // before reading values
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

// Reads the index without accessing the data files. Throws Error(kFormat) if the index belongs to
// another save than `info`, or does not list one file per rank.
ShardIndex read_index(const std::filesystem::path& folder, const CheckpointInfo& info,
                      const IndexVisit& visit = {});

// Throws Error(kFormat) if data file `number` of the index has another size than the index states,
// or if its label names another save than `info` or another rank than `number`. `beginning`: the
// first bytes of the file. `file_bytes`: the file's size.
void require_data_file(const std::filesystem::path& folder, const CheckpointInfo& info,
                       const ShardIndex& index, size_t number, std::string_view beginning,
                       uint64_t file_bytes);
// Returns the damaged data files: a map from a file's number in the index to Error(kIo) if the file
// is missing, or to the error that require_data_file() throws for it. Reads only the beginnings of
// files. Checks many files on several threads, because each check takes milliseconds on a shared
// file system.
std::map<size_t, Error> damaged_files(const std::filesystem::path& folder,
                                      const CheckpointInfo& info, const ShardIndex& index);
// Throws the first error that damaged_files() returns, if any.
void require_data_files(const std::filesystem::path& folder, const CheckpointInfo& info,
                        const ShardIndex& index);
// Throws an error of read_index() or require_data_files() if the checkpoint is not complete. Checks
// each data file, and all boxes (parts of tensors) of the index, without keeping the boxes in
// memory.
void require_complete(const std::filesystem::path& folder, const CheckpointInfo& info);

}  // namespace am::run_folder
